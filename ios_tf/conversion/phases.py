"""The phases of a conversion, as the progress shows them."""

READ = "read the model"
LOAD = "load the model"
FIND_BLOCKS = "find blocks"
TRY = "try the conversion"
SEARCH = "search for schedules"
CHECK = "check the network"
COMPARE = "compare and time"
MEASURE = "measure operators"

# The usual shares of the time. They only affect the estimate of the time left.
WEIGHTS = {
    READ: 4.0,
    LOAD: 4.0,
    FIND_BLOCKS: 6.0,
    TRY: 10.0,
    SEARCH: 40.0,
    CHECK: 14.0,
    COMPARE: 16.0,
    MEASURE: 6.0,
}
