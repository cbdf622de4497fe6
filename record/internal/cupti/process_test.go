package cupti

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// endings are the ways of ending after which nothing may be missing.
var endings = []struct {
	mode              string
	threads, launches int
	plain             bool // not with sanitizers, of which TestExitsSanitized and TestForks have it
}{
	{"return", 1, 1, true},
	{"return", 4, 20000, false},
	{"return", 40, 500, false},
	{"thread-exit", 2, 1000, true},
	{"fork", 2, 1000, true},
	{"names", 2, 3000, false},
	{"return", 1, 0, true},
}

func testEndings(t *testing.T, o Options, env ...string) {
	for _, e := range endings {
		if e.plain && o.library != nil {
			continue
		}
		t.Run(fmt.Sprintf("%s-%d-%d", e.mode, e.threads, e.launches), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, o, GoConfig{})
			n := e.threads * e.launches
			stdout, stderr, code := s.run(t, play{"program", []string{e.mode, fmt.Sprint(e.threads), fmt.Sprint(e.launches)}, env})
			expect(t, stdout, stderr, code, fmt.Sprintf("launched %d dropped 0\n", n))
			s.whole(t, uint64(n))
			if e.mode == "names" && s.names["kernel_number_2999"] != 2 {
				t.Errorf("names: %d", len(s.names))
			}
		})
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	testEndings(t, Options{})
}

func TestKernelFields(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	s.run(t, play{"program", []string{"return", "1", "1"}, nil})
	got := s.last["kernel"].(tracelog.Kernel)
	pid := s.ends[0].PID
	want := tracelog.Kernel{
		GPU: tracelog.GPU{PID: pid, Device: 100, Context: 101, Stream: 7, Correlation: 1, Graph: 77,
			GraphNode: 0x1122334455667788, Start: got.Start, Dur: got.Dur},
		Name: "_Z3addPfS_", Registers: 32, Grid: [3]uint32{103, 104, 105}, Block: [3]uint32{106, 107, 108},
		StaticShared: 109, DynamicShared: 110, LocalPerThread: 111, Cluster: [3]uint32{2, 3, 4},
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	api := s.last["api"].(tracelog.API)
	if api.PID != pid || api.TID == pid || api.TID == 0 || api.Name != "cudaLaunchKernel" || api.CBID != 211 ||
		api.Domain != tracelog.DomainRuntime || api.Correlation != 1 || api.Ret != 9 {
		t.Errorf("got %+v", api)
	}
	if p := s.peers[0]; p.PID != pid || p.Time == 0 {
		t.Errorf("got %+v", p)
	}
}

func TestOtherRecords(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	s.run(t, play{"program", []string{"others", "0", "0"}, nil})
	pid := s.ends[0].PID
	gpu := func(got tracelog.GPU, dur uint64, correlation, graph uint32, node uint64) tracelog.GPU {
		return tracelog.GPU{PID: pid, Device: 1, Context: 2, Stream: 3, Start: got.Start, Dur: dur,
			Correlation: correlation, Graph: graph, GraphNode: node}
	}
	peer := s.last["peer"].(tracelog.Memcpy)
	set := s.last["memset"].(tracelog.Memset)
	want := map[string]any{
		"peer": tracelog.Memcpy{GPU: gpu(peer.GPU, 6, 13, 15, 14), Bytes: 8192, CopyKind: 4, SrcKind: 5, DstKind: 6,
			SrcDevice: 11, DstDevice: 12},
		"memset": tracelog.Memset{GPU: gpu(set.GPU, 7, 21, 23, 22), Bytes: 64, Value: 255},
		"device": tracelog.Device{PID: pid, ID: 34, Name: "Fake GPU", UUID: "000102030405060708090a0b0c0d0e0f",
			Major: 9, Minor: 1, Multiprocessors: 33, Memory: 32, Bandwidth: 31, L2Cache: 1028, WarpSize: 1032, Clock: 1036, CopyEngines: 1040,
			MaxWarps: 1052, MaxBlocks: 1056, MaxShared: 1060, MaxRegisters: 1064, BlockRegisters: 1068, BlockShared: 1072, BlockThreads: 1076, ECC: 1},
		"context": tracelog.Context{PID: pid, ID: 41, Device: 42, NullStream: 43},
		"stream":  tracelog.Stream{PID: pid, Context: 51, ID: 52, Priority: -5, Flags: 54},
		"overhead": tracelog.Overhead{PID: pid, OverheadKind: 1 << 16, ObjectKind: 2, TID: 72, Dur: 9,
			Start: s.last["overhead"].(tracelog.Overhead).Start},
		"marker": tracelog.Marker{PID: pid, TID: 83, ID: 81, Flags: tracelog.MarkerEnd, Time: s.last["marker"].(tracelog.Marker).Time},
		"name":   tracelog.Name{PID: pid, ObjectKind: tracelog.ObjectStream, ID: 93, Context: 92, Device: 91, Name: "a stream"},
		"memory_pool": tracelog.MemoryPool{PID: pid, Operation: 3, PoolKind: 2, Correlation: 111, Device: 113, MinBytesToKeep: 114,
			Address: 0x900000001000, Size: 115, ReleaseThreshold: 116, Time: s.last["memory_pool"].(tracelog.MemoryPool).Time},
	}
	for kind, w := range want {
		if s.last[kind] != w {
			t.Errorf("%s:\ngot  %+v\nwant %+v", kind, s.last[kind], w)
		}
	}
	if s.counts["marker"] != 2 || s.names["a range"] != 1 {
		t.Errorf("%v arrived, names %v", s.counts, s.names)
	}
	if s.counts["memcpy"] != 2 || s.ends[0].Copies != 2 || s.ends[0].Sets != 1 || len(s.lost) != 0 {
		t.Errorf("%v arrived, %v was lost, the end is %+v", s.counts, s.lost, s.ends[0])
	}
}

// TestNobodyThere runs programs that find nobody, or nobody who answers.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"no-socket", "no-listener", "silent", "closes", "nonsense", "cut-go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			answer(t, s, name)
			cmd := play{"program", []string{"off", "2", "10"}, nil}.command(t, s.server.Environ(os.Environ()))
			cmd.Stdin = strings.NewReader("")
			stdout, stderr, code := runCommand(t, cmd)
			expect(t, stdout, stderr, code, "waiting\nlaunched 40 dropped 0\n")
		})
	}
}

// answer puts a recorder in the server's place that behaves as named.
func answer(t *testing.T, s *stage, how string) {
	t.Helper()
	socket := filepath.Join(s.server.dir, privatefolder.SocketName)
	must.Do(t, removeSocket(s.server))
	if how == "no-socket" {
		return
	}
	l := listenAt(t, socket)
	if how == "no-listener" {
		l.SetUnlinkOnClose(false)
		l.Close()
		return
	}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		switch how {
		case "closes":
			conn.Close()
		case "nonsense":
			conn.Write(bytes.Repeat([]byte{0xff}, 4096))
		case "cut-go":
			conn.Write(appendGo(nil, GoConfig{}.withDefaults())[:20])
		}
		io.Copy(io.Discard, conn)
	}()
}

func TestRecorderGone(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
	cmd, input := s.waiting(t, "off", nil)
	if err := s.server.Close(); err != nil {
		t.Error(err)
	}
	input.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v", err)
	}
	if len(s.ends) != 1 || s.ends[0].Complete != 0 {
		t.Errorf("the end is %+v", s.ends)
	}
}

// waiting starts a program that has launched 2 × 1000 kernels and waits.
func (s *stage) waiting(t *testing.T, mode string, env []string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd, input, _ := s.waitingThreads(t, mode, "2", env)
	return cmd, input
}

// waitingThreads is waiting with another number of threads. It returns the program's output, too.
func (s *stage) waitingThreads(t *testing.T, mode, threads string, env []string) (*exec.Cmd, io.WriteCloser, io.Reader) {
	t.Helper()
	cmd := play{"program", []string{mode, threads, "1000"}, env}.command(t, s.server.Environ(os.Environ()))
	input, output := started(t, cmd)
	line := make([]byte, len("waiting\n"))
	if _, err := io.ReadFull(output, line); err != nil || string(line) != "waiting\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	return cmd, input, output
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	cmd, input := s.waiting(t, "off", nil)
	if left := s.server.StopAll(patience); left != 0 {
		t.Errorf("%d processes did not stop", left)
	}
	s.whole(t, 2000)
	input.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v", err)
	}
	stdout, stderr, code := s.run(t, play{"program", []string{"return", "1", "5"}, nil})
	expect(t, stdout, stderr, code, "launched 5 dropped 0\n")
	s.whole(t, 2000) // nothing of one that came later
}

func TestFlush(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
	cmd, input := s.waiting(t, "wait", nil)
	s.server.peers.each(func(p *peer) { p.tell(msgFlush, nil) })
	arrived := func() bool {
		s.tally.mu.Lock()
		defer s.tally.mu.Unlock()
		return s.counts["kernel"] == 2000 && s.counts["api"] == 2000
	}
	must.Wait(t, arrived, func() string { return "not all has arrived" })
	input.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v", err)
	}
	s.server.Wait(patience)
	s.whole(t, 4000)
}

// TestStalledRecorder lets the queue in the program run full: what was dropped
// and what arrived add up to what CUPTI delivered.
func TestStalledRecorder(t *testing.T) {
	t.Parallel()
	begin := monotonic()
	s := newStage(t, Options{}, GoConfig{})
	must.Do(t, removeSocket(s.server))
	l := listenAt(t, filepath.Join(s.server.dir, privatefolder.SocketName))
	p := play{"program", []string{"wait", "4", "20000"}, nil}
	cmd := p.command(t, s.server.Environ(os.Environ()))
	input, output := started(t, cmd)
	conn := must.Get(l.AcceptUnix())(t)
	config := GoConfig{MemoryLimit: 2 << 20, FlushInterval: 10 * time.Millisecond}
	reader, messages := s.answered(t, conn, config)
	must.Get(io.ReadFull(output, make([]byte, len("waiting\n"))))(t)
	input.Close()
	reader.hear(messages)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v", err)
	}
	s.located(t, begin)
	const n = 2 * 4 * 20000
	delivered := s.ends[0].Kernels + s.ends[0].APIs
	if delivered+s.lost["cupti_dropped"] != 2*n || s.lost["cupti_queue"] == 0 {
		t.Errorf("CUPTI delivered %d records, %v was lost", delivered, s.lost)
	}
	if got := s.counts["kernel"] + s.counts["api"] + s.lost["cupti_queue"]; got != delivered {
		t.Errorf("%d arrived or were dropped by us, %d were delivered", got, delivered)
	}
}

// answered answers a process's hello, and reads nothing of what it then sends.
func (s *stage) answered(t *testing.T, conn *net.UnixConn, c GoConfig) (*peer, *messageReader) {
	t.Helper()
	p := &peer{link: link{conn: conn, hub: s.server.hub}, server: s.server, handler: s.audience, listener: s.audience}
	if err := p.identify(); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		p.hangUp()
		p.unshare()
	})
	m := &messageReader{r: conn, memory: &s.server.memory}
	if kind, _, err := m.next(); kind != msgHello || err != nil {
		t.Errorf("message %d, %v", kind, err)
	}
	p.answer(p.PID, c.withDefaults)
	return p, m
}

// TestEndWithStalledRecorder ends a program whose recorder never reads: the wait
// for it is bounded.
func TestEndWithStalledRecorder(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	must.Do(t, removeSocket(s.server))
	l := listenAt(t, filepath.Join(s.server.dir, privatefolder.SocketName))
	go func() {
		if conn, err := l.AcceptUnix(); err == nil {
			s.answered(t, conn, GoConfig{ExitWait: 200 * time.Millisecond})
		}
	}()
	cmd := play{"program", []string{"return", "4", "20000"}, nil}.command(t, s.server.Environ(os.Environ()))
	stdout, stderr, code := runCommand(t, cmd)
	expect(t, stdout, stderr, code, "launched 80000 dropped 0\n")
}

// TestForkedChildLivesOn has a child that outlives the program: the program's
// connection ends with the program.
func TestForkedChildLivesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	cmd := play{"program", []string{"orphan", "2", "10"}, nil}.command(t, s.server.Environ(os.Environ()))
	input := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	if state, err := cmd.Process.Wait(); err != nil || state.ExitCode() != 7 {
		t.Errorf("the program ended with %v, %v", state, err)
	}
	if left := s.server.Wait(patience); left != 0 || len(s.ends) != 1 || s.ends[0].Complete != 0 {
		t.Errorf("%d are left, the end is %+v", left, s.ends)
	}
	input.Close() // now the child ends
}

// TestNoBuffers has more threads than the memory limit has buffers. CUPTI is not flushed while they launch: each thread keeps its
// buffer. The clock stands still, so that the library waits for the recorder however busy the machine is.
func TestNoBuffers(t *testing.T) {
	t.Parallel()
	launch := func(t *testing.T, env ...string) (s *stage, launched, dropped uint64) {
		t.Helper()
		begin, cue := monotonic(), newCues(t)
		s = newStage(t, Options{}, GoConfig{MemoryLimit: 1 << 20})
		cue.set(cueHang, 1)
		cue.stopClock()
		cmd, input, output := s.waitingThreads(t, "wait", "120", cue.env(env...))
		cue.set(cueHang, 0)
		input.Close()
		if n, err := fmt.Fscanf(output, "launched %d dropped %d\n", &launched, &dropped); n != 2 {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code says it
		s.server.Wait(patience)
		if code := cmd.ProcessState.ExitCode(); code != 7 || launched != 240000 {
			t.Errorf("the program launched %d and ended with %d", launched, code)
		}
		s.located(t, begin)
		return s, launched, dropped
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s, launched, dropped := launch(t)
		if dropped == 0 || s.lost["cupti_dropped"] != dropped {
			t.Errorf("CUPTI dropped %d, of which %v is told", dropped, s.lost)
		}
		if got := s.counts["kernel"] + s.counts["api"] + s.lost["cupti_dropped"] + s.lost["cupti_queue"]; got != 2*launched {
			t.Errorf("%d of %d are accounted for", got, 2*launched)
		}
	})
	t.Run("scratch", func(t *testing.T) {
		t.Parallel()
		if s, _, dropped := launch(t, "FAKE_VERSION=26"); dropped != 0 || s.lost["cupti_buffer"] == 0 {
			t.Errorf("CUPTI dropped %d, lost %v", dropped, s.lost)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := []struct{ fail, want string }{
		{"cuptiGetVersion", "cuptiGetVersion failed"},
		{"cuptiActivityRegisterCallbacks", "cuptiActivityRegisterCallbacks failed: FAKE_ERROR (error 999)"},
		{"cuptiActivityEnableRuntimeApi", "no API record could be switched on"},
	}
	for _, test := range tests {
		t.Run(test.fail, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			cmd := play{"program", []string{"off", "2", "10"}, []string{"FAKE_FAIL=" + test.fail}}.command(t, s.server.Environ(os.Environ()))
			cmd.Stdin = strings.NewReader("")
			stdout, stderr, code := runCommand(t, cmd)
			expect(t, stdout, stderr, code, "waiting\nlaunched 40 dropped 0\n")
			s.server.Wait(patience)
			if got := s.status().Status; got != test.want {
				t.Errorf("the status is %q, want %q", got, test.want)
			}
			if s.counts["kernel"] != 0 || len(s.ends) != 1 || s.ends[0].Complete != 1 {
				t.Errorf("%v arrived, the end is %+v", s.counts, s.ends)
			}
		})
	}
}

func TestCUPTINewerThanDriver(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	s.run(t, play{"program", []string{"return", "2", "10"}, []string{"FAKE_DRIVER=12040"}})
	const want = "it belongs to CUDA 13, the driver knows CUDA up to 12.4"
	if got := s.status(); got.Status != want || got.Version != 130001 || got.DriverVersion != 12040 {
		t.Errorf("CUPTI is %+v", got)
	}
}

func TestNoCUPTIWanted(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{NoCUPTI: true})
	stdout, stderr, code := s.run(t, play{"program", []string{"return", "2", "10"}, nil})
	expect(t, stdout, stderr, code, "launched 20 dropped 0\n")
	if got := s.status().Status; got != "off" || s.counts["kernel"] != 0 || s.ends[0].Complete != 1 {
		t.Errorf("the status is %q, %v arrived, the end is %+v", got, s.counts, s.ends)
	}
}

// TestOldRelease runs on a CUPTI without the functions that came later.
func TestOldRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	begin := monotonic()
	s.run(t, play{"program-lacking", []string{"return", "2", "1000"}, []string{"FAKE_VERSION=17"}})
	s.whole(t, 2000)
	s.onOneClock(t, begin)
	if k := s.last["kernel"].(tracelog.Kernel); k.Cluster != [3]uint32{} {
		t.Errorf("a cluster of a release without clusters: %v", k.Cluster)
	}
	if s.names["cudaLaunchKernel"] != 2000 {
		t.Errorf("names: %v", s.names)
	}
}

// onOneClock checks that kernel times lie between begin and now.
func (s *stage) onOneClock(t *testing.T, begin uint64) {
	t.Helper()
	slack := s.status().ClockError
	if s.times[0]+slack < begin || s.times[1] > monotonic()+slack || slack > uint64(time.Second) {
		t.Errorf("kernels from %d to %d, between %d and %d, with an error of %d", s.times[0], s.times[1], begin, monotonic(), slack)
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	for _, clock := range []string{"callback", "refused", "ignored", "records"} {
		t.Run(clock, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
			begin := monotonic()
			s.run(t, play{"program", []string{"return", "2", "1000"}, []string{"FAKE_CLOCK=" + clock}})
			s.onOneClock(t, begin)
			if s.counts["kernel"] != 2000 || len(s.lost) != 0 {
				t.Errorf("%v arrived, %v was lost", s.counts, s.lost)
			}
			if corrected := s.status().ClockError > 0; corrected != (clock != "callback") {
				t.Errorf("the clock's error is %d", s.status().ClockError)
			}
		})
	}
	for clock, want := range map[string]map[string]uint64{
		"zero": {"cupti_time": 2000}, "garbage": {"cupti_clock": 4000},
	} {
		t.Run(clock, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			s.run(t, play{"program", []string{"return", "2", "1000"}, []string{"FAKE_CLOCK=" + clock}})
			if s.counts["kernel"] != 2000 || fmt.Sprint(s.lost) != fmt.Sprint(want) || s.times != [2]uint64{} {
				t.Errorf("%v arrived, %v was lost, times %v", s.counts, s.lost, s.times)
			}
		})
	}
}

// TestDescriptorsTakenAway has the program close all descriptors and open files under
// their numbers: not a byte of ours gets into them, and nothing is missing.
func TestDescriptorsTakenAway(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
	cmd := play{"program", []string{"close-fds", "2", "5000"}, nil}.command(t, s.server.Environ(os.Environ()))
	stdout, stderr, code := runCommand(t, cmd)
	expect(t, stdout, stderr, code, "launched 10000 dropped 0\n")
	got, err := os.ReadFile(filepath.Join(cmd.Dir, "given-away"))
	if err != nil || len(got) != 0 {
		t.Errorf("the program's own file has %d bytes, %v", len(got), err)
	}
	s.server.Wait(patience)
	s.whole(t, 10000)
}

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	var all sync.WaitGroup
	for range 20 {
		cmd := play{"program", []string{"return", "2", "500"}, nil}.command(t, s.server.Environ(os.Environ()))
		all.Go(func() { _ = cmd.Run() })
	}
	all.Wait()
	s.server.Wait(patience)
	if s.counts["kernel"] != 20000 || s.counts["api"] != 20000 || len(s.ends) != 20 || len(s.lost) != 0 {
		t.Errorf("%v arrived from %d processes, %v was lost", s.counts, len(s.ends), s.lost)
	}
}

// TestForeignRequests sends nonsense and checks that it is told of and changes nothing.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"no-hello":      appendFrame(nil, msgBatch, nil),
		"wrong-version": appendFrame(nil, msgHello, helloPayload(wireVersion+1)),
		"bad-batch":     stream(appendFrame(nil, msgBatch, []byte{1})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			conn := dial(t, s.server)
			must.Get(conn.Write(sent))(t)
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Logf("the connection ended with %v", err)
			}
			s.server.Wait(patience)
			if len(s.notes) != 1 || !strings.Contains(s.notes[0], "it sent a malformed message") {
				t.Errorf("notes: %q", s.notes)
			}
		})
	}
}

// TestFullBuffersAreFetched runs CUPTI out of buffers long before the next flush
// is due: the library asks for the full ones by itself.
func TestFullBuffersAreFetched(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{MemoryLimit: 4 << 20, FlushInterval: time.Hour})
	cmd := play{"program", []string{"return", "2", "20000"}, []string{"FAKE_HOARD=1"}}.command(t, s.server.Environ(os.Environ()))
	stdout, stderr, code := runCommand(t, cmd)
	expect(t, stdout, stderr, code, "launched 40000 dropped 0\n")
	s.server.Wait(patience)
	got := s.counts["kernel"] + s.counts["api"] + s.lost["cupti_queue"] // this process may be slower than the other
	if got != 80000 || s.ends[0].Kernels != 40000 || s.lost["cupti_dropped"] != 0 {
		t.Errorf("%v arrived, %v was lost, the end is %+v", s.counts, s.lost, s.ends)
	}
}
