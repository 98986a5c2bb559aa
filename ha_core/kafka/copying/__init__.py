"""The copy loop of one task."""

from ha_core.kafka.copying.appending import KEYLESS as KEYLESS
from ha_core.kafka.copying.fetching import BUFFER_BYTES as BUFFER_BYTES
from ha_core.kafka.copying.loop import Copying as Copying
from ha_core.kafka.copying.states import ELSEWHERE as ELSEWHERE
from ha_core.kafka.copying.states import LEVEL_MS as LEVEL_MS
from ha_core.kafka.copying.states import TAKEN_OVER as TAKEN_OVER
from ha_core.kafka.copying.states import Reached as Reached
from ha_core.kafka.copying.states import StoppedCopy as StoppedCopy
from ha_core.kafka.copying.statuses import CopyCoverage as CopyCoverage
from ha_core.kafka.copying.statuses import CopyStatus as CopyStatus
from ha_core.kafka.copying.statuses import CopyTotals as CopyTotals
