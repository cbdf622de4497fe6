package convert

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A log with CUPTI's records of allocations says what they lack: memory of calls that they do not have, and what was
// live when a process or a part of a recording ended. Other logs lack nothing.
func TestMemoryLacks(t *testing.T) {
	t.Parallel()
	const (
		process = "process pid=60 start=100\ncupti pid=60 status=on\nmeta key=memory value="
		ordered = "api pid=60 tid=60 domain=2 cbid=360 name=cudaMallocAsync start=1000 dur=100\n"
		killed  = "process_end pid=60 time=6000 status=0 complete=0\n"
		ended   = "process_end pid=60 time=6000 status=0 complete=1\n"
		live    = ", and what was not freed when a process, or the log, ended without CUPTI's last records"
	)
	for _, c := range []struct{ log, want string }{
		{process + "calls\n" + ordered + killed, ""},
		{process + "\"not recorded: calls are not recorded\"\n" + ordered, ""},
		{"process pid=60 start=100\nmemory pid=60 operation=1 memory_kind=3 time=1000 address=1 bytes=1\n", ""},
		{process + "cupti\n" + ended, "CUPTI's records lack stream-ordered memory"},
		{process + "cupti\n" + ordered + ended, "CUPTI's records lack the memory of 1 call such as cudaMallocAsync"},
		{process + "cupti\n" + killed, "CUPTI's records lack stream-ordered memory" + live},
		{process + "cupti\n", "CUPTI's records lack stream-ordered memory" + live}, // it still ran
	} {
		log := Log{"log", logtest.Assemble(t, c.log)}
		all := must.Get(Timeline([]Log{log}, Options{}, timelinetest.NewCollector(t)))(t)
		if got := all[0].MemoryLacks; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
