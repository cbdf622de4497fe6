package cupti

import "github.com/cudatrace/cudatrace/record/host"

// monotonic is the clock of the records.
func monotonic() uint64 { return host.Monotonic() }
