"""Callers that ask at the same time share one question, which was sent after they came."""

import asyncio

from gateway.process.composing import SingleFlight


class Cluster:
    """Answers with the number of the question, when the test lets it."""

    def __init__(self) -> None:
        self.asked = 0
        self.may = asyncio.Event()

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may.wait()
        if number == 3:
            raise ConnectionError
        return number


async def test_callers_that_come_while_a_question_is_in_flight_share_the_next_one() -> None:
    # Given a question in flight, and ten later callers
    cluster, joint = Cluster(), SingleFlight[int]()
    first = asyncio.create_task(joint.ask("topics", cluster.ask))
    await asyncio.sleep(0.01)
    later = [asyncio.create_task(joint.ask("topics", cluster.ask)) for _ in range(10)]
    other = asyncio.create_task(joint.ask("something else", cluster.ask))
    await asyncio.sleep(0.01)
    assert cluster.asked == 2
    # When one of them is cancelled, and the cluster answers
    later.pop().cancel()
    cluster.may.set()
    # Then the ten were one question, put after they came
    assert await first == 1
    assert await other == 2
    results = await asyncio.gather(*later, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError] * 9
    # and a failure is theirs only
    assert await joint.ask("topics", cluster.ask) == 4
