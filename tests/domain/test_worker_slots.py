"""Who gets which slot of an engine, and who may find what it has computed."""

import threading

from hasten.worker.engines.slots import Hold, Slots, common


def _run(slots: Slots, tenant: str, prompt: bytes, began: bool = True) -> Hold:
    with slots.hold(tenant, prompt) as held:
        if began:
            held.began()
    return held


def test_a_tenants_own_prompt_is_found_again_and_another_tenants_is_not() -> None:
    slots = Slots(1)
    assert not _run(slots, "acme", b"the same prompt").reuses
    assert _run(slots, "acme", b"the same prompt").reuses
    assert not _run(slots, "rival", b"the same prompt").reuses
    assert not _run(slots, "acme", b"the same prompt").reuses


def test_a_request_that_never_began_does_not_make_the_slot_its_tenants() -> None:
    slots = Slots(1)
    _run(slots, "acme", b"a secret")
    assert not _run(slots, "rival", b"a secret", began=False).reuses
    assert not _run(slots, "rival", b"a secret", began=False).reuses
    assert not _run(slots, "acme", b"a secret").reuses
    assert _run(slots, "acme", b"a secret", began=False).reuses
    assert _run(slots, "acme", b"a secret").reuses


def test_the_slot_with_most_of_the_prompt_is_taken() -> None:
    slots = Slots(3)
    first = _run(slots, "acme", b"You sell boats. What does one cost?")
    second = _run(slots, "acme", b"Translate into French: good morning")
    assert first.at != second.at
    assert _run(slots, "acme", b"You sell boats. Are there oars?").at == first.at
    assert _run(slots, "acme", b"Translate into French: good night").at == second.at


def test_tenants_do_not_take_each_others_slots_while_there_is_another() -> None:
    slots = Slots(2)
    ours, theirs = _run(slots, "acme", b"a prompt"), _run(slots, "rival", b"a prompt")
    assert ours.at != theirs.at
    assert _run(slots, "acme", b"a prompt").at == ours.at
    assert _run(slots, "rival", b"a prompt").at == theirs.at
    assert _run(slots, "third", b"a prompt").at == ours.at, "the one that was not used for longest"


def test_a_prompt_that_has_little_in_common_takes_the_slot_that_is_idle_for_longest() -> None:
    slots = Slots(2)
    kept = _run(slots, "acme", b"You sell boats. " * 20)
    assert _run(slots, "acme", b"Something else altogether").at != kept.at


def test_nobody_shares_a_slot_that_is_held_and_all_are_served() -> None:
    slots, served, inside, most = Slots(2), [], 0, 0
    lock = threading.Lock()

    def ask(tenant: str) -> None:
        nonlocal inside, most
        with slots.hold(tenant, b"prompt") as held:
            with lock:
                inside += 1
                most = max(most, inside)
            held.began()
            with lock:
                inside -= 1
        served.append(tenant)

    threads = [threading.Thread(target=ask, args=(f"t{at % 5}",)) for at in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(served) == 40
    assert most <= 2


def test_common_counts_the_leading_bytes() -> None:
    assert common(b"", b"abc") == 0
    assert common(b"abc", b"abd") == 2
    assert common(b"abc", b"abc") == 3
    assert common(b"abc", b"abcd") == 3
    assert common(b"x" * 5000 + b"a", b"x" * 5000 + b"b") == 5000
