"""Long lists are freed in a thread, too."""

import threading

from gateway.runtime.offload import DeferredFreeList


class Item:
    """Says which thread frees it."""

    def __init__(self, freed_by: list[str], all_freed: threading.Event) -> None:
        self.freed_by, self.all_freed = freed_by, all_freed

    def __del__(self) -> None:
        self.freed_by.append(threading.current_thread().name)
        if len(self.freed_by) == 100:
            self.all_freed.set()


def test_items_of_a_long_list_are_freed_by_another_thread_than_its_last_user() -> None:
    freed_by, all_freed = list[str](), threading.Event()
    topics = DeferredFreeList(Item(freed_by, all_freed) for _ in range(100))
    del topics
    assert all_freed.wait(10)
    assert threading.current_thread().name not in freed_by
