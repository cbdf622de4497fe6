package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A hang is a call that had not returned, and the kernel that it waited for.
func TestHangs(t *testing.T) {
	t.Parallel()
	const begin = `
process pid=1 start=1000 exe=/bin/app args=app
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
thread pid=1 tid=1 name=main
cupti pid=1 version=130001 driver_version=13000 path=/x status=on
function id=1 name=cuLaunchKernel library=driver args="f:handle stream:handle"
function id=2 name=cuStreamSynchronize library=driver args=stream:handle
symbol pid=1 handle=0x77 name=_Z4spinPi time=1000
call pid=1 tid=1 func=cuLaunchKernel enter=1000000 dur=5000 args: f=0x77 stream=0x5
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1001000 dur=3000 correlation=1
kernel pid=1 context=1 stream=7 start=2000000 dur=1000000 name=_Z4fastPi correlation=1
`
	const launched = `
call pid=1 tid=1 func=cuLaunchKernel enter=2100000 dur=5000 args: f=0x77 stream=0x5
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=2101000 dur=3000 correlation=2
`
	const waits = "call pid=1 tid=1 func=cuStreamSynchronize enter=2200000 dur=0 flags=1 args: stream=0x5\n"
	const end = "process_end pid=1 time=9003000000 complete=1 kernels=1\nend time=9003000000 complete=1\n"
	// Launches that CUPTI alone has recorded.
	const alone = `
process pid=1 start=1000 exe=/bin/app args=app
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
thread pid=1 tid=1 name=main
cupti pid=1 version=130001 driver_version=13000 path=/x status=on
function id=2 name=cuStreamSynchronize library=driver args=stream:handle
caller id=1 function=cudaLaunchKernel module=/bin/app build_id="" address=1 symbol=one
caller id=2 function=cudaLaunchKernel module=/bin/app build_id="" address=2 symbol=two
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1001000 dur=3000 correlation=1 caller=1
kernel pid=1 context=1 stream=7 start=1100000 dur=1000 name=_Z4fastPi correlation=1
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1201000 dur=3000 correlation=2 caller=2
kernel pid=1 context=1 stream=8 start=1300000 dur=1000 name=_Z5otherPi correlation=2
`
	const atOne = "api pid=1 tid=1 domain=1 name=cuLaunchKernel start=2101000 dur=3000 correlation=3 caller=1\n"
	const elsewhere = "api pid=1 tid=1 domain=1 name=cuLaunchKernel start=2101000 dur=3000 correlation=3\n"
	const lookedUp = "symbol pid=1 handle=0x77 name=_Z4spinPi time=2100000\n"
	for _, c := range []struct {
		name, log string
		want      []string
	}{
		{"a launch at a place of earlier ones", alone + atOne + waits + end,
			[]string{"kernel fast has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a launch at a new place of a kernel that was looked up", alone + lookedUp + elsewhere + waits + end,
			[]string{"kernel spin has run for 9s and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a launch at a new place", alone + elsewhere + waits + end,
			[]string{"a kernel has run for 9s and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a launch at a new place, beside the only stream that has worked, which goes on", strings.ReplaceAll(alone, "stream=7", "stream=8") + elsewhere +
			"api pid=1 tid=1 domain=1 name=cuLaunchKernel start=2151000 dur=3000 correlation=4 caller=2\n" +
			"kernel pid=1 context=1 stream=8 start=2160000 dur=1000 name=_Z5otherPi correlation=4\n" + waits + end,
			[]string{"a kernel has run for 9s on stream 8 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"none", begin + end, nil},
		{"a launch without its kernel", begin + launched + waits + end,
			[]string{"kernel spin has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a kernel that runs", begin + launched + waits + "kernel pid=1 context=1 stream=7 start=3000000 dur=9000000000 name=_Z4spinPi correlation=2\n" + end,
			[]string{"kernel spin has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"kernels without times behind one that runs", begin + launched + waits + "kernel pid=1 context=1 stream=7 start=3000000 dur=0 name=_Z4spinPi correlation=2\n" +
			strings.ReplaceAll(strings.ReplaceAll(launched, "correlation=2", "correlation=3"), "enter=21", "enter=22") + "kernel pid=1 context=1 stream=7 start=0 dur=0 name=_Z4lastPi correlation=3\n" + end,
			[]string{"kernel spin has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a kernel without times in front of one that ended", strings.Replace(begin, "kernel pid=1 context=1 stream=7 start=2000000 dur=1000000 name=_Z4fastPi",
			"kernel pid=1 context=1 stream=7 start=0 dur=0 name=_Z5shortPi", 1) + launched + "kernel pid=1 context=1 stream=7 start=3000000 dur=500 name=_Z4fastPi correlation=2\n" +
			"call pid=1 tid=1 func=cuStreamSynchronize enter=4000000 dur=0 flags=1 args: stream=0x5\n" + end,
			[]string{"thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a launch whose kernel a wait that returned has seen", begin + "symbol pid=1 handle=0x78 name=_Z4lastPi time=1000\n" + launched +
			"call pid=1 tid=1 func=cuStreamSynchronize enter=2110000 dur=1000 args: stream=0x5\n" +
			"call pid=1 tid=1 func=cuLaunchKernel enter=2120000 dur=5000 args: f=0x78 stream=0x5\n" + waits + end,
			[]string{"kernel last has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a wait for another stream", begin + "symbol pid=1 handle=0x78 name=_Z4lastPi time=1000\n" + launched +
			"call pid=1 tid=1 func=cuStreamSynchronize enter=2110000 dur=1000 args: stream=0x6\n" +
			"call pid=1 tid=1 func=cuLaunchKernel enter=2120000 dur=5000 args: f=0x78 stream=0x5\n" + waits + end,
			[]string{"kernel spin has run for 9s on stream 7 and has not ended: thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"another wait after it", begin + launched + "call pid=1 tid=1 func=cuStreamSynchronize enter=3100000 dur=1000 args: stream=0x5\n" +
			"call pid=1 tid=1 func=cuStreamSynchronize enter=4000000 dur=0 flags=1 args: stream=0x5\n" + end,
			[]string{"thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a kernel that ended meanwhile", begin + waits + end, []string{"thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"no kernel", begin + "call pid=1 tid=1 func=cuStreamSynchronize enter=4000000 dur=0 flags=1 args: stream=0x5\n" + end,
			[]string{"thread 1 (main) of process 1 has been in cuStreamSynchronize for 9s"}},
		{"a program that exec replaced", begin + launched + waits + "process pid=1 start=3000000 exe=/bin/next args=next\n" + end, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := must.Get(Timeline([]Log{{"test", logtest.Assemble(t, c.log)}}, Options{}, nil))(t)
			if !slices.Equal(all[0].Hangs, c.want) {
				t.Errorf("hangs %q, want %q", all[0].Hangs, c.want)
			}
		})
	}
}
