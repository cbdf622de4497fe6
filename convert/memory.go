package convert

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// memoryLacks says what CUPTI's records of allocations lack, "" where allocations are not from such. How much of it the
// program has is not known: calls that CUPTI records have no arguments.
func (l *log) memoryLacks(found *join.Found) string {
	c := l.catalog
	if !c.MemoryWithoutCalls() {
		return ""
	}
	lacks := []string{"stream-ordered memory"}
	calls, name := uint64(0), ""
	for _, f := range found.Calls.Functions {
		if f.Calls > 0 && cudaapi.AllocatesApart(f.Function.Name) {
			if calls += f.Calls; name == "" {
				name = f.Function.Name
			}
		}
	}
	if calls > 0 {
		lacks[0] = fmt.Sprintf("the memory of %s such as %s", figures.Count(calls, "call", "calls"), name)
	}
	for _, pid := range c.Processes.PIDs {
		if e, ended := c.Outcome.LastEnd(pid); c.Outcome.Recorded(pid) && (!ended || e.Complete == 0) {
			lacks = append(lacks, "what was not freed when a process, or the log, ended without CUPTI's last records")
			break
		}
	}
	return "CUPTI's records lack " + strings.Join(lacks, ", and ")
}
