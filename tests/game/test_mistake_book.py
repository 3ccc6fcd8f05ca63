from parity import load_parity

from codea1_jax.game.mistake_book import retrieved, updated


def test_the_book_equals_the_original_event_by_event():
    pages = {}
    for event in load_parity()["mistake_book"]:
        page = pages.get(event["question"], {})
        assert list(retrieved(page)) == event["retrieved"]
        pages[event["question"]] = updated(page, event["book_passes"], event["new_failures"])
        assert list(pages[event["question"]].items()) == list(event["after"].items())


def test_a_test_that_is_passed_away_and_fails_again_is_young_again():
    page = {"old": 1, "middle": 1, "new": 1}
    assert list(updated(page, passed=["old"], failed=["old"])) == ["middle", "new", "old"]


def test_retrieval_takes_the_most_frequent_and_the_older_of_equals():
    page = {"a": 1, "b": 3, "c": 2, "d": 3, "e": 2}
    assert retrieved(page, limit=4) == ("b", "d", "c", "e")


def test_a_retrieval_leaves_its_order_on_the_page():
    page = updated({"a": 1, "b": 2}, passed=["b"], failed=[])
    assert list(page.items()) == [("b", 1), ("a", 1)]
    assert retrieved(page) == ("b", "a")


def test_a_pass_of_a_test_that_is_not_in_the_book_changes_nothing():
    assert updated({"a": 2}, passed=["b"], failed=[]) == {"a": 2}


def test_updating_leaves_the_old_page_as_it_was():
    page = {"a": 1}
    updated(page, passed=["a"], failed=["b"])
    assert page == {"a": 1}
