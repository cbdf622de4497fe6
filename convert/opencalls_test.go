package convert

import (
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A call that the log has before it returns counts once, and had not returned if the recorder was killed before that.
func TestOpenCalls(t *testing.T) {
	t.Parallel()
	const begin = `
process pid=1 start=1000 exe=/bin/app args=app
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
thread pid=1 tid=1 name=main
function id=1 name=cuCtxSynchronize library=driver args=""
function id=2 name=cuStreamSynchronize library=driver args=stream:handle
caller id=1 function=cudaStreamSynchronize module=/bin/app build_id="" address=1 symbol=main
call pid=1 tid=1 func=cuCtxSynchronize enter=1000000 dur=5000
`
	const open = "open_call pid=1 tid=1 func=2 enter=2000000 dur=1500000000 caller=1 arg0=0x5\n"
	const other = "open_call pid=1 tid=2 func=2 enter=2000000 dur=1500000000 caller=1 arg0=0x5\n"
	const namespaced = "thread pid=1 tid=9 name=main local_tid=1\n"
	const named = "open_call pid=1 tid=1 func=0 enter=2000000 dur=1500000000 caller=1 name=cuStreamSynchronize\n"
	const api = "api pid=1 tid=1 domain=1 cbid=126 name=cuStreamSynchronize start=2000000 dur=3000000000 correlation=7 ret=0 caller=1\n"
	const moreAPI = "api pid=1 tid=1 domain=1 cbid=125 name=cuCtxSynchronize start=4000000000 dur=5000 correlation=8 ret=0 caller=1\n"
	const returned = "call pid=1 tid=1 func=#2 enter=2000000 dur=3000000000 caller=1 args: stream=0x5\n"
	const left = "call pid=1 tid=1 func=#2 enter=2000000 dur=0 flags=1 caller=1 args: stream=0x5\n"
	const more = "call pid=1 tid=1 func=#1 enter=4000000000 dur=5000\n"
	const hang = "thread 1 (main) of process 1 has been in cudaStreamSynchronize for 1.5s, called from app: main+0x0"
	for _, c := range []struct {
		name              string
		parts             []string
		killed            bool
		calls, unfinished uint64
		hangs             []string
	}{
		{"it returned", []string{begin, open, returned, more}, false, 3, 0, nil},
		{"it returned before the recorder was killed", []string{begin, open, returned, more}, true, 3, 0, nil},
		{"in one part with its return", []string{begin + open + returned + more}, true, 3, 0, nil},
		{"it had not returned at the end", []string{begin, open, left}, false, 2, 1, []string{"thread 1 (main) of process 1 has been in cudaStreamSynchronize for 5s, called from app: main+0x0"}},
		{"it had not returned when the recorder was killed", []string{begin, open}, true, 2, 1, []string{hang}},
		{"a call of another thread had not", []string{begin, open, other, returned, more}, true, 4, 1, []string{"thread 2 of process 1 has been in cudaStreamSynchronize for 4s, called from app: main+0x0"}},
		{"its record was lost", []string{begin, open, more}, false, 2, 0, nil},
		{"of CUPTI, it returned", []string{begin, named, api}, true, 2, 0, nil},
		{"of CUPTI, its thread has gone on", []string{begin, named, moreAPI}, true, 2, 0, nil},
		{"of CUPTI, it had not returned", []string{begin, named}, true, 2, 1, []string{hang}},
		{"of CUPTI, in a PID namespace", []string{begin, namespaced + named}, true, 2, 1, []string{"thread 9 (main) of process 1 has been in cudaStreamSynchronize for 1.5s, called from app: main+0x0"}},
		{"of CUPTI, its record was lost", []string{begin, named}, false, 1, 0, nil},
		{"alone", []string{open}, true, 1, 1, []string{"thread 1 of process 1 has been in function 2 for 1.5s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := logtest.NewGrowing(t)
			for _, part := range c.parts {
				g.Append(part)
			}
			if !c.killed {
				g.Finish(tracelog.End{Time: 5e9, Complete: 1})
			}
			all := must.Get(Timeline([]Log{{"test", logtest.InMemory(g.Bytes())}}, Options{}, nil))(t)
			if s := &all[0]; s.Calls != c.calls || s.Unfinished != c.unfinished || !slices.Equal(s.Hangs, c.hangs) {
				t.Errorf("%d calls, %d of them unfinished, hangs %q; want %d, %d and %q", s.Calls, s.Unfinished, s.Hangs, c.calls, c.unfinished, c.hangs)
			}
		})
	}
}
