package stats

import (
	"cmp"
	"strings"
)

// reasons say why a report has no rows although what it shows was recorded.
var reasons = map[string]string{
	"profile": "no GPU work", "findings": "nothing that costs enough to be worth a look",
	"kernels": "no kernels", "kernel_shapes": "no kernels", "calls": "no calls", "callers": "no calls with a caller",
	"copies": "no copies", "sets": "no memory sets", "graphs": "no graphs that were recorded as a whole",
	"waits": "no calls that waited for GPU work", "launches": "no kernels whose call is known", "launch_rate": "no kernels whose call is known", "devices": "no GPU work",
	"streams": "no GPU work", "idle": "no idle time between GPU work", "ranks": "no GPU work", "collectives": "no collectives of NCCL that several ranks of the logs run together", "late_collectives": "no rank is known to have waited in a collective", "message_sizes": "no collectives of NCCL", "metrics": "no metrics were sampled while there was GPU work", "memory": "no allocations were recorded", "unfreed": "no allocations that were not freed",
	"errors": "no failed calls", "nvtx": "no NVTX ranges or marks", "nvtx_metrics": "no metrics were sampled while work of NVTX ranges ran", "threads": "no calls", "processes": "no processes",
}

// ofGPU are the reports that need CUPTI's records.
var ofGPU = map[string]bool{
	"profile": true, "findings": true, "kernels": true, "kernel_shapes": true, "copies": true, "sets": true, "graphs": true, "waits": true, "launches": true, "launch_rate": true,
	"devices": true, "idle": true, "streams": true, "ranks": true, "collectives": true, "late_collectives": true, "message_sizes": true, "metrics": true, "nvtx": true, "nvtx_metrics": true,
}

// reason says why a report has no rows.
func reason(report string, f Facts) string {
	switch {
	case report == "findings" && f.Chosen:
		return "findings need all calls and all GPU work of a process: leave out the filter by thread, device, stream, name, caller, NVTX range or duration"
	case ofGPU[report] && f.GPU != "":
		return f.GPU
	case (report == "memory" || report == "unfreed") && f.Memory != "":
		return f.Memory
	case report == "callers" && f.Callers != "":
		return f.Callers
	}
	why := cmp.Or(reasons[report], "nothing")
	if f.Filtered {
		why += " in the part that the filter selects"
	}
	return why
}

// more adds to what a report itself says why collectives of several ranks were not put together.
func (f *Facts) more(known string) string {
	if !strings.HasPrefix(known, reasons["collectives"]) {
		return known
	}
	if f.Filtered {
		known += "; a filter selects a part of the logs"
	}
	if f.Broken != "" {
		known += "; " + f.Broken
	}
	return known
}
