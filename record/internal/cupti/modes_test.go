package cupti

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// builds are the library as it ships and as built for sanitizers.
func builds(t *testing.T, f func(t *testing.T, o Options, env []string)) {
	for _, which := range []string{"", "address", "thread"} {
		t.Run("build-"+which, func(t *testing.T) {
			t.Parallel()
			if which == "" {
				f(t, Options{}, nil)
				return
			}
			built, env := sanitizedLibrary(t, which)
			f(t, Options{library: built}, env)
		})
	}
}

// A conversation is a program in mode "phases".
type conversation struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

func (s *stage) converse(t *testing.T, mode string, env ...string) *conversation {
	t.Helper()
	cmd := play{"program", []string{mode, "2", "100"}, env}.command(t, s.server.Environ(os.Environ()))
	input, output := started(t, cmd)
	return &conversation{t, cmd, input, bufio.NewScanner(output)}
}

// say gives the program a letter and returns how much is on in CUPTI afterwards.
func (c *conversation) say(letter string) string {
	c.t.Helper()
	on := must.Get(c.ask(letter))(c.t)
	return on
}

func (c *conversation) ask(letter string) (on string, err error) {
	if _, err := io.WriteString(c.input, letter); err != nil {
		return "", err
	}
	if !c.lines.Scan() {
		return "", io.ErrUnexpectedEOF
	}
	return c.lines.Text(), nil
}

// until waits until so much is on.
func (c *conversation) until(want string) {
	c.t.Helper()
	must.Wait(c.t, func() bool { return c.say("s") == want }, func() string {
		return c.say("s") + " are on, want " + want
	})
}

// finish ends the program, which launches once more before it does.
func (c *conversation) finish(s *stage) {
	c.t.Helper()
	c.input.Close()
	for c.lines.Scan() { // its last words
	}
	if err := c.cmd.Wait(); err == nil || c.cmd.ProcessState.ExitCode() != 7 {
		c.t.Errorf("the program ended with %v", err)
	}
	if left := s.server.Wait(patience); left != 0 {
		c.t.Fatalf("%d processes are still connected", left)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	builds(t, func(t *testing.T, o Options, env []string) {
		s := newStage(t, o, GoConfig{FlushInterval: 10 * time.Millisecond})
		c := s.converse(t, "phases", env...)
		on := c.say("w")
		for range 3 {
			s.server.Pause()
			c.until(fmt.Sprint(pausedOn(t)))
			c.say("w")
			s.server.Resume()
			c.until(on)
			c.say("w")
		}
		c.finish(s)
		const n = (1 + 3 + 1) * 2 * 100
		if s.counts["kernel"] != n || s.counts["api"] != n || len(s.lost) != 0 || len(s.notes) != 0 {
			t.Errorf("%v arrived, %v was lost, want %d launches; notes %q", s.counts, s.lost, n, s.notes)
		}
	})
}

// TestReady has a program go on only when its end is watched, since that may be near. The
// program's wait has no limit here; while its end is not watched, it comes to that wait.
func TestReady(t *testing.T) {
	t.Parallel()
	builds(t, func(t *testing.T, o Options, env []string) {
		cue := newCues(t)
		s := newStage(t, o, GoConfig{})
		s.audience.gate = make(chan struct{})
		c := s.converse(t, "phases", cue.env(env...)...)
		goesOn := make(chan error, 1)
		go func() {
			_, err := c.ask("w")
			goesOn <- err
		}()
		waits := func() bool { return cue.get(cueReadyWaits) > 0 || len(goesOn) > 0 }
		must.Wait(t, waits, func() string { return "the program does not wait" })
		if len(goesOn) > 0 {
			t.Error("the program goes on before its end is watched")
		}
		close(s.audience.gate)
		must.Do(t, <-goesOn)
		s.audience.mu.Lock()
		watched := len(s.exits)
		s.audience.mu.Unlock()
		if watched != 1 {
			t.Errorf("the program goes on, and %d ends are watched", watched)
		}
		c.finish(s)
	})
}

// TestPausedStart has programs say hello while everything is paused.
func TestPausedStart(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own-%v", own), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{Paused: own})
			if !own {
				s.server.Pause()
			}
			c := s.converse(t, "phases")
			if on := c.say("w"); on != fmt.Sprint(pausedOn(t)) {
				t.Errorf("%s are on while paused", on)
			}
			if got := <-s.statuses; got != "on" {
				t.Errorf("the status is %q", got)
			}
			s.server.Resume()
			c.until(fmt.Sprint(allOn(t, DefaultRecords)))
			c.finish(s)
			if s.counts["kernel"] != 200 || s.counts["api"] != 200 || s.ends[0].Complete != 1 {
				t.Errorf("%v arrived, the end is %+v", s.counts, s.ends)
			}
		})
	}
}

func TestCaptureRange(t *testing.T) {
	t.Parallel()
	builds(t, func(t *testing.T, o Options, env []string) {
		s := newStage(t, o, GoConfig{CaptureRange: true})
		stdout, stderr, code := s.run(t, play{"program", []string{"range", "3", "1000"}, env})
		expect(t, stdout, stderr, code, "launched 9000 dropped 0\n")
		s.whole(t, 3000)
	})
}

func TestCaptureRangeRefused(t *testing.T) {
	t.Parallel()
	for _, fail := range []string{"cuptiSubscribe", "cuptiEnableCallback"} {
		t.Run(fail, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{CaptureRange: true})
			s.run(t, play{"program", []string{"range", "1", "10"}, []string{"FAKE_FAIL=" + fail}})
			const want = "there is another subscriber, so all is recorded, not only between cudaProfilerStart and cudaProfilerStop"
			if s.counts["kernel"] != 30 || len(s.notes) != 1 || !strings.Contains(s.notes[0], want) {
				t.Errorf("%v arrived, notes %q", s.counts, s.notes)
			}
		})
	}
}

// TestCalls names the calls to record: all their variants are, and no others.
func TestCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		calls []string
		on    int
		apis  uint64
	}{
		{[]string{"cudaMalloc"}, 1, 0},
		{[]string{"cuMemcpyHtoD_v2", "cudaMalloc"}, 4, 0},
		{[]string{"cuMemcpyHtoD", "cudaLaunchKernel", "cudaNoSuchCall"}, 4, 200},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.calls), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{Calls: test.calls})
			c := s.converse(t, "phases")
			if got, want := c.say("s"), allOn(t, DefaultRecords)-fakeCalls+test.on; got != fmt.Sprint(want) {
				t.Errorf("%s are on, want %d", got, want)
			}
			c.finish(s)
			if s.counts["kernel"] != 200 || s.counts["api"] != test.apis {
				t.Errorf("%v arrived", s.counts)
			}
		})
	}
}

func TestCallsUnknown(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{Calls: []string{"cudaNoSuchCall"}})
	s.run(t, play{"program", []string{"return", "1", "1"}, nil})
	if got := s.status().Status; got != "no API record could be switched on" {
		t.Errorf("the status is %q", got)
	}
}

// TestOtherClient has the program become a CUPTI client itself, as PyTorch's profiler
// does. It is told, or finds out; its own client is left in peace.
func TestOtherClient(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("told-%v", told), func(t *testing.T) {
			t.Parallel()
			builds(t, func(t *testing.T, o Options, env []string) { testOtherClient(t, o, told, env) })
		})
	}
}

func testOtherClient(t *testing.T, o Options, told bool, env []string) {
	config := GoConfig{FlushInterval: time.Hour}
	if !told {
		config = GoConfig{FlushInterval: 20 * time.Millisecond, WatchClients: true}
	}
	s := newStage(t, o, config)
	cmd, input := s.waiting(t, "client", env)
	if told {
		s.server.OtherClient(uint32(cmd.Process.Pid) + 1) // somebody else
		s.server.OtherClient(uint32(cmd.Process.Pid))
	}
	for taken := false; !taken; {
		select {
		case status := <-s.statuses:
			taken = strings.Contains(status, "another CUPTI client")
		case <-time.After(patience):
			t.Fatal("it was not noticed")
		}
	}
	input.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v", err)
	}
	s.server.Wait(patience)
	if len(s.ends) != 1 || s.ends[0].Complete != 0 {
		t.Errorf("the end is %+v", s.ends)
	}
	if len(s.notes) != 1 || !strings.Contains(s.notes[0], "another CUPTI client") {
		t.Errorf("notes: %q", s.notes)
	}
	if got := s.status(); got.Path == "" || got.Version == 0 {
		t.Errorf("CUPTI is %+v", got)
	}
}

// TestNobodyElse watches for another client where there is none, in a program that does
// nothing for many times as many flushes as it would take to believe in one.
func TestNobodyElse(t *testing.T) {
	t.Parallel()
	cue := newCues(t)
	s := newStage(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond, WatchClients: true})
	c := s.converse(t, "phases", cue.env()...)
	c.say("w")
	cue.until(cueFlushesDone, cue.get(cueFlushesDone)+50)
	c.say("w")
	c.finish(s)
	s.whole(t, 600)
}

// TestBufferRequest checks that a client can be told from us by what it registers.
func TestBufferRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	cmd, input := s.waiting(t, "wait", nil)
	maps := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid)))(t)
	s.audience.mu.Lock()
	request := s.peers[0].BufferRequest
	s.audience.mu.Unlock()
	var inside bool
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x r-xp", &from, &to); err == nil && strings.Contains(line, privatefolder.LibraryName) {
			inside = inside || from <= request && request < to
		}
	}
	if !inside {
		t.Errorf("%#x is no function of the library", request)
	}
	input.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("the program ended with 0")
	}
	s.server.Wait(patience)
}

// TestNVTX has a program use NVTX before and after CUDA starts. The lines are
// what NVTX was answered and how many tables libcupti has.
func TestNVTX(t *testing.T) {
	t.Parallel()
	dir := must.Get(fake())(t)
	library := filepath.Join(dir, "lib/libcupti.so.13")
	home := []string{"CUDA_HOME=" + dir} // where the recorder finds lib
	tests := []struct {
		name   string
		config GoConfig
		env    []string
		want   string
	}{
		{"located", GoConfig{}, home, "1 1\n1 2\n"},
		{"located-late", GoConfig{Candidates: []Candidate{{Path: library, Major: 13}}}, nil, "1 -1\n1 2\n"},
		{"no-cupti", GoConfig{}, nil, "1 -1\n0 -1\n"},
		{"cupti-not-wanted", GoConfig{NoCUPTI: true}, home, "1 1\n0 1\n"},
		{"nvtx-not-wanted", GoConfig{Records: RecordWork}, home, "1 1\n0 1\n"},
		{"refused-by-cupti", GoConfig{}, append(home, "FAKE_FAIL=InitializeInjectionNvtx2"), "0 1\n0 2\n"},
	}
	for _, test := range tests {
		for _, entry := range []string{"InitializeInjectionNvtx2", "InitializeInjectionNvtx"} {
			if entry == "InitializeInjectionNvtx" && test.name != "located" { // from here on both are one
				continue
			}
			t.Run(test.name+"-"+entry, func(t *testing.T) {
				t.Parallel()
				builds(t, func(t *testing.T, o Options, env []string) {
					s := newStage(t, o, test.config)
					p := play{"nvtx", []string{entry}, append(env, test.env...)}
					stdout, stderr, code := s.run(t, p)
					expect(t, stdout, stderr, code, test.want)
					if len(s.peers) != 1 || len(s.ends) != 1 || len(s.notes) != 0 {
						t.Errorf("%d peers, %d ends, notes %q", len(s.peers), len(s.ends), s.notes)
					}
				})
			})
		}
	}
}

// TestNVTXAlone uses NVTX when there is nobody to ask.
func TestNVTXAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	answer(t, s, "no-listener")
	stdout, stderr, code := runCommand(t, play{"nvtx", []string{"InitializeInjectionNvtx2"}, nil}.command(t, s.server.Environ(os.Environ())))
	expect(t, stdout, stderr, code, "0 -1\n0 -1\n")
}

// TestClockOfKernels has CUPTI put kernels on a clock of their own.
func TestClockOfKernels(t *testing.T) {
	t.Parallel()
	for clock, least := range map[string]uint64{"first": 0, "moved": 4_000_000} {
		t.Run(clock, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
			begin := monotonic()
			s.run(t, play{"program", []string{"return", "2", "20000"}, []string{"FAKE_CLOCK=" + clock}})
			s.onOneClock(t, begin)
			delete(s.lost, tracelog.LostCUPTIQueue) // this process may be slower than the other
			if s.ends[0].Kernels != 40000 || len(s.lost) != 0 {
				t.Errorf("%v arrived, %v was lost", s.counts, s.lost)
			}
			if got := s.status().ClockError; got < least || got == 0 {
				t.Errorf("the clock's error is %d, want at least %d", got, least)
			}
		})
	}
}

// TestKernelsWithoutTimes runs two programs on a CUPTI that gives kernels no times
// with a callback: the second is recorded without.
func TestKernelsWithoutTimes(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	p := play{"program", []string{"return", "2", "1000"}, []string{"FAKE_CLOCK=zero-kernels"}}
	s.run(t, p)
	s.tally.mu.Lock()
	if s.lost[tracelog.LostCUPTITime] != 2000 || s.times != [2]uint64{} {
		t.Errorf("%v was lost, times %v", s.lost, s.times)
	}
	s.tally.mu.Unlock()
	begin := monotonic()
	s.run(t, p)
	s.onOneClock(t, begin)
	if s.lost[tracelog.LostCUPTITime] != 2000 || s.counts["kernel"] != 4000 || s.status().ClockError == 0 {
		t.Errorf("%v was lost, %v arrived, CUPTI %+v", s.lost, s.counts, s.status())
	}
	if len(s.notes) != 1 || !strings.Contains(s.notes[0], "kernels have no times") {
		t.Errorf("notes: %q", s.notes)
	}
}

func TestLostCauses(t *testing.T) {
	t.Parallel()
	for _, c := range lostNames[1:] {
		if !slices.Contains(tracelog.LostCauses, c) {
			t.Errorf("the log has no cause %q", c)
		}
	}
}
