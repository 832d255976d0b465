"""What the ledger says: every reader of segments, by name. Each takes a fixed number of queries."""

from portal.usage.arrays import NEVER as NEVER
from portal.usage.attempts import AttemptColumns as AttemptColumns
from portal.usage.attempts import endings as endings
from portal.usage.attempts import window_attempts as window_attempts
from portal.usage.columns import STANDINGS as STANDINGS
from portal.usage.columns import SegmentColumns as SegmentColumns
from portal.usage.delivery import Delivery as Delivery
from portal.usage.delivery import HourlyDelivery as HourlyDelivery
from portal.usage.delivery import delivery as delivery
from portal.usage.delivery import delivery_by_hour as delivery_by_hour
from portal.usage.delivery import delivery_mean as delivery_mean
from portal.usage.occupancy import AuthorUsage as AuthorUsage
from portal.usage.occupancy import Occupancy as Occupancy
from portal.usage.occupancy import charged_by_workload as charged_by_workload
from portal.usage.occupancy import charged_gpu_seconds as charged_gpu_seconds
from portal.usage.occupancy import occupancy_by_standing as occupancy_by_standing
from portal.usage.occupancy import usage_by_author as usage_by_author
from portal.usage.pyramid import Pyramid as Pyramid
from portal.usage.pyramid import pyramid as pyramid
from portal.usage.segments import window_segments as window_segments
from portal.usage.waits import WAIT_CLASSES as WAIT_CLASSES
from portal.usage.waits import WaitColumns as WaitColumns
from portal.usage.waits import WaitStats as WaitStats
from portal.usage.waits import nearest_rank as nearest_rank
from portal.usage.waits import queue_waits as queue_waits
from portal.usage.waits import wait_samples as wait_samples
