package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// statesOfHost is the log of a host, on which two threads share a processor. A large number of a processor is not one that a trace may have.
func statesOfHost(host string, cpu int) string {
	return fmt.Sprintf(`meta key=host value=%s
meta key=boot value=%[1]s
function id=1 name=cuInit library=driver
process pid=7 start=1000 exe=/tmp/app args=app
thread pid=7 tid=7 name=main-%[1]s
thread pid=7 tid=8 name=other-%[1]s
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
call pid=7 tid=7 func=cuInit enter=2000 dur=500
call pid=7 tid=8 func=cuInit enter=3000 dur=500
thread_state pid=7 tid=7 state=1 start=2000 dur=1000 cpu=%[2]d
thread_state pid=7 tid=7 state=3 start=3000 dur=1000 cpu=%[2]d
thread_state pid=7 tid=8 state=1 start=3000 dur=1000 cpu=%[2]d
thread_state pid=7 tid=8 state=3 start=4000 dur=1000 cpu=%[2]d
`, host, cpu)
}

// Each host's threads have their states, on processors of which no two hosts share one.
func TestStatesOfHostsProcessor(t *testing.T) {
	t.Parallel()
	var logs []Log
	for host, cpu := range map[string]int{"n1": 3, "n2": 3, "n3": 1 << 31} {
		logs = append(logs, Log{host, logtest.Assemble(t, statesOfHost(host, cpu))})
	}
	slices.SortFunc(logs, func(a, b Log) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	if _, _, err := toTrace(logs, &out, TraceOptions{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	must.Do(t, os.WriteFile(path, out.Bytes(), 0o600))
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	got := fmt.Sprint(tr.Values(`select t.name, state, s.dur, s.cpu from thread_state s join thread t using (utid) order by t.name, s.ts`))
	want := "[[main-n1 Running 1000 3] [main-n1 S -1 <nil>] [main-n2 Running 1000 1024] [main-n2 S -1 <nil>] [main-n3 Running 1000 1025] [main-n3 S -1 <nil>] " +
		"[other-n1 Running 1000 3] [other-n1 S -1 <nil>] [other-n2 Running 1000 1024] [other-n2 S -1 <nil>] [other-n3 Running 1000 1025] [other-n3 S -1 <nil>]]"
	if got != want {
		t.Errorf("the states are\n%s\nnot\n%s", got, want)
	}
}

// A trace has a bounded number of processors, and says what it lacks.
func TestTooManyProcessors(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(statesOfHost("n1", 3))
	for i := range 5000 {
		fmt.Fprintf(&text, "thread_state pid=7 tid=7 state=%d start=%d dur=100 cpu=%d\n", 1+i%2, 5000+i*100, 5000+i)
	}
	tr, _ := openTrace(t, logtest.Assemble(t, text.String()))
	if n := tr.Int("select max(cpu) from thread_state"); n != 4095-1 { // running at every other number
		t.Errorf("the last processor is %d", n)
	}
	if n := tr.Int("select count(*) from slice where name glob '* states of threads in which they ran are drawn as the ones before: a trace has at most 4096 processors*'"); n != 1 {
		t.Errorf("%d notes say what is missing", n)
	}
}
