package cupti

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// callsAndWaits are the calls that the programs of these tests make.
var callsAndWaits = GoConfig{Calls: []string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyHtoD", "cuStreamSynchronize"}, FlushInterval: 10 * time.Millisecond}

// TestCallThatHangs has a program hang in a wait, and kills it, or stops recording: that call alone has
// not returned.
func TestCallThatHangs(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed-%v", killed), func(t *testing.T) {
			t.Parallel()
			s, seen := newSites(t, Options{}, callsAndWaits)
			cmd := s.hang(t)
			if killed {
				must.Do(t, cmd.Process.Kill())
			} else if left := s.server.StopAll(patience); left != 0 {
				t.Errorf("%d processes are still connected", left)
			}
			s.server.Wait(patience)
			pid := uint32(cmd.Process.Pid)
			if len(seen.open) != 1 || seen.open[0].TID != pid || seen.open[0].Name != "cuInner" || seen.open[0].Caller == 0 || seen.open[0].Dur != 0 {
				t.Errorf("open calls %+v", seen.open)
			}
			if i := slices.IndexFunc(s.chains, func(c Chain) bool { return slices.Equal(c.Addresses, s.inside[0].Addresses) }); uint32(i)+1 != seen.open[0].Caller {
				t.Errorf("the caller is %d, the chain is number %d of those that were sent", seen.open[0].Caller, i+1)
			}
		})
	}
}

// TestCallThatHangsAfterAMiss has a program hang in a wait while a call before it, whose record comes later, was not
// seen: the one that hangs was.
func TestCallThatHangsAfterAMiss(t *testing.T) {
	t.Parallel()
	config := callsAndWaits
	config.FlushInterval = time.Second / 2 // the program hangs by then; its first calls are flushed at once
	s, seen := newSites(t, Options{}, config)
	cmd := s.hang(t, "CUDASIM_CUPTI_CALLBACK_SKIP=400")
	must.Do(t, cmd.Process.Kill())
	s.server.Wait(patience)
	if seen.without != 1 || len(seen.open) != 1 || seen.open[0].Name != "cuInner" {
		t.Errorf("%d calls were not seen, open calls %+v", seen.without, seen.open)
	}
}

// TestCallThatHangsIsNoted has a program hang in its first wait. The log has the call while the program runs, once, and again at the end.
func TestCallThatHangsIsNoted(t *testing.T) {
	t.Parallel()
	for _, launches := range []int{2, 300} {
		t.Run(fmt.Sprint(launches), func(t *testing.T) {
			t.Parallel()
			s, seen := newSites(t, Options{OpenCalls: true}, callsAndWaits)
			cmd := s.hangAfter(t, launches)
			looks := func() int {
				s.audience.mu.Lock()
				defer s.audience.mu.Unlock()
				return len(s.inside)
			}
			for over := time.Now().Add(patience); looks() < 4 && time.Now().Before(over); {
				time.Sleep(10 * time.Millisecond)
			}
			seen.mu.Lock()
			noted := slices.Clone(seen.noted)
			seen.mu.Unlock()
			must.Do(t, cmd.Process.Kill())
			s.server.Wait(patience)
			pid := uint32(cmd.Process.Pid)
			if len(noted) != 1 || len(seen.noted) != 1 || noted[0].PID != pid || noted[0].TID != pid || noted[0].Name != "cuInner" || noted[0].Dur < uint64(openAfter) || noted[0].Caller == 0 {
				t.Fatalf("%d looks noted %+v, and in the end %+v", looks(), noted, seen.noted)
			}
			if len(seen.open) != 1 || seen.open[0].Start != noted[0].Enter {
				t.Errorf("noted %+v, in the end %+v", noted, seen.open)
			}
		})
	}
}

// TestCallsThatReturnAreNotNoted looks at a program whose threads make calls for longer than openAfter. Of those none lasts as long.
func TestCallsThatReturnAreNotNoted(t *testing.T) {
	t.Parallel()
	s, seen := newSites(t, Options{OpenCalls: true}, callsAndWaits)
	s.runSim(t, "longrun:", "longrun", nil, "3", "-i", "100")
	if len(seen.noted) != 0 {
		t.Errorf("open calls %+v", seen.noted)
	}
}

// TestCallThatHangsAfterMany has a program hang that has made more calls before the first records came than there is room for: these
// have no callers, and the one that hangs has.
func TestCallThatHangsAfterMany(t *testing.T) {
	t.Parallel()
	config := callsAndWaits
	config.BufferSize, config.MemoryLimit = 32<<20, 512<<20
	s, seen := newSites(t, Options{}, config)
	cmd := s.hangAfter(t, 40_000, "CUDASIM_CUPTI_SLOW_FLUSH_MS=500") // the first flush is at the start
	flushes := func() uint64 {
		s.tally.mu.Lock()
		defer s.tally.mu.Unlock()
		return s.counts["flushed"]
	}
	for before, over := flushes(), time.Now().Add(patience); flushes() < before+3 && time.Now().Before(over); { // the library draws its conclusions after one
		time.Sleep(10 * time.Millisecond)
	}
	must.Do(t, cmd.Process.Kill())
	s.server.Wait(patience)
	if len(seen.open) != 1 || len(s.notes) != 0 {
		t.Errorf("%d calls have no callers, open calls %+v, notes %q", seen.without, seen.open, s.notes)
	}
}

// hang runs a program until it hangs in a wait, for all others of its calls have records.
func (s *stage) hang(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	return s.hangAfter(t, 300, env...)
}

// hangAfter likewise, with a number of launches.
func (s *stage) hangAfter(t *testing.T, n int, env ...string) *exec.Cmd {
	t.Helper()
	cmd := play{simProgram(t, "exits"), []string{"hang", "-n", fmt.Sprint(n)}, env}.command(t, s.server.Environ(os.Environ()))
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	must.Wait(t, func() bool { return s.recorded("cuLaunchKernel") >= n && len(s.openNow()) == 1 }, func() string {
		return fmt.Sprintf("the program does not hang: %d launches, calls %+v", s.recorded("cuLaunchKernel"), s.openNow())
	})
	return cmd
}

// recorded is how many calls of a function have records.
func (s *stage) recorded(function string) int {
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	return s.names[function]
}

// openNow returns the calls that threads of all processes are in.
func (s *stage) openNow() (all []OpenCall) {
	s.server.peers.mu.Lock()
	defer s.server.peers.mu.Unlock()
	for _, p := range s.server.peers.all {
		all = append(all, p.openCalls()...)
	}
	return all
}

// TestPrivateMemory runs a process to which no memory comes: it runs on unrecorded, which is said.
func TestPrivateMemory(t *testing.T) {
	t.Parallel()
	s := must.Get(Listen(Options{Sink: newTally(), bases: []string{t.TempDir(), "/tmp"}, private: true}))(t)
	a := &audience{}
	go s.Serve(a)
	cmd := play{"program", []string{"return", "2", "1000"}, nil}.command(t, s.Environ(os.Environ()))
	stdout, stderr, code := runCommand(t, cmd)
	expect(t, stdout, stderr, code, "launched 2000 dropped 0\n")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(a.ends) != 1 || a.ends[0].Complete != 0 || a.ends[0].Kernels != 0 {
		t.Errorf("ends %+v", a.ends)
	}
}

// TestForkInACall forks a child whose thread ends: it leaves the parent's open calls alone. A program that ends before the library has
// learned how CUPTI calls it, on a busy machine, has none.
func TestForkInACall(t *testing.T) {
	t.Parallel()
	for range 20 {
		told := filepath.Join(t.TempDir(), "told")
		s, seen := newSites(t, Options{}, callsAndWaits)
		s.run(t, play{simProgram(t, "inside"), []string{told, "-n", "2000", "--fork", "--fault"}, nil})
		_, first := readInside(t, told)
		if len(seen.open) == 1 && seen.open[0].TID == first {
			return
		}
		if len(seen.open) != 0 {
			t.Fatalf("open calls %+v, want one of thread %d", seen.open, first)
		}
	}
	t.Error("the call of the first thread was never open")
}

// TestReturnedCallsAreNotOpen kills programs whose threads say whether they are in a call. However far
// the library has come in learning how CUPTI calls it, no other thread is in a call.
func TestReturnedCallsAreNotOpen(t *testing.T) {
	t.Parallel()
	found := 0
	for i := 0; i < 40; i += 2 {
		fault := i%5 == 4
		told := filepath.Join(t.TempDir(), "told")
		args := []string{told, "-t", fmt.Sprint(1 + i%7), "-n", fmt.Sprint(1 + 25*i)}
		if fault {
			args = append(args, "--fault")
		}
		s, seen := newSites(t, Options{}, callsAndWaits)
		s.run(t, play{simProgram(t, "inside"), args, nil})
		inside, first := readInside(t, told)
		for _, c := range seen.open {
			if !inside[c.TID] {
				t.Errorf("%q: thread %d is not in a call, but %+v", args, c.TID, c)
			}
			if c.TID == first {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no program that crashed in a call was in one")
	}
}

// readInside returns which threads were in calls, and the first thread.
func readInside(t *testing.T, file string) (inside map[uint32]bool, first uint32) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil || len(b) < 8 {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	inside = map[uint32]bool{}
	for entry := range slices.Chunk(b, 8) {
		inside[le.Uint32(entry)] = le.Uint32(entry[4:]) == 1
	}
	delete(inside, 0)
	return inside, le.Uint32(b)
}

// An entry is a thread's entry in the memory that a process shares.
type entry struct {
	from, places              uint64
	sequence, tid             uint32
	last                      [openPlaces]uint64
	time, inner, epoch, count uint64
	address                   [chainMax]uint64
}

func (e *entry) parse() (OpenCall, bool) {
	head := le.AppendUint64(le.AppendUint64(nil, e.from), e.places)
	var b bytes.Buffer
	fields := []any{e.sequence, e.tid, e.last, e.time, e.inner, e.epoch, e.count, e.address}
	for _, f := range fields {
		if err := binary.Write(&b, le, f); err != nil {
			panic(err)
		}
	}
	return parseOpenCall(append(head, make([]byte, sharedCallsAt-len(head))...), append(b.Bytes(), make([]byte, openSize-b.Len())...))
}

// TestOpenEntries reads entries of threads in calls and out of them. Calls begin at place 0 and end at
// place 1; place 2 is within calls.
func TestOpenEntries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*entry)
		open   bool
	}{
		{"in-a-call", func(*entry) {}, true},
		{"place-within", func(e *entry) { e.last[2] = 150 }, true},
		{"returned", func(e *entry) { e.last[1] = 101 }, false},
		{"returned-at-once", func(e *entry) { e.last[1] = 100 }, false},
		{"unknown-place", func(e *entry) { e.last[5] = 101 }, false},
		{"nothing-learnt", func(e *entry) { e.places = 0 }, false},
		{"no-end-learnt", func(e *entry) { e.places &^= 1 << 32 }, false},
		{"place-of-both-kinds", func(e *entry) { e.places |= 1 << 16 }, false},
		{"begins-nowhere", func(e *entry) { e.places &^= 1 }, false},
		{"in-doubt", func(e *entry) { e.from = 101 }, false},
		{"never-called", func(e *entry) { e.last = [openPlaces]uint64{} }, false},
		{"being-written", func(e *entry) { e.sequence = 3 }, false},
		{"free", func(e *entry) { e.tid = 0 }, false},
		{"walk-failed", func(e *entry) { e.time = 99 }, false},
		{"walk-within", func(e *entry) { e.time, e.last[2] = 150, 150 }, true},
		{"no-chain", func(e *entry) { e.count = 0 }, false},
		{"long-chain", func(e *entry) { e.count = chainMax + 1 }, false},
		{"endless-chain", func(e *entry) { e.count = 1 << 63 }, false},
	} {
		e := entry{from: 50, places: 1 | 1<<18 | 1<<32, sequence: 4, tid: 7, time: 100, inner: 0x1000, epoch: 3, count: 2, address: [chainMax]uint64{1, 2, 9}}
		e.last[0], e.last[1] = 100, 90
		test.change(&e)
		c, open := e.parse()
		if open != test.open {
			t.Errorf("%s: open %v", test.name, open)
		}
		if open && (c.TID != 7 || c.Start != 100 || c.Inner != 0x1000 || c.Epoch != 3 || !slices.Equal(c.Addresses, []uint64{1, 2})) {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
}

// FuzzOpenCall reads anything as the entry of a thread.
func FuzzOpenCall(f *testing.F) {
	f.Add(make([]byte, sharedCallsAt+openSize))
	f.Add(bytes.Repeat([]byte{255}, sharedCallsAt+openSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, sharedCallsAt+openSize)...)
		c, open := parseOpenCall(b[:sharedCallsAt], b[sharedCallsAt:sharedCallsAt+openSize])
		if open && (c.TID == 0 || c.Start == 0 || len(c.Addresses) == 0 || len(c.Addresses) > chainMax) {
			t.Errorf("%+v", c)
		}
	})
}

// TestHostileOpenCalls has a process fill the shared memory with nonsense, try to change its size, and
// go on writing while it is read.
func TestHostileOpenCalls(t *testing.T) {
	t.Parallel()
	s, seen := newSites(t, Options{}, GoConfig{})
	conn := dial(t, s.server)
	must.Get(conn.Write(stream()))(t)
	frame, oob := make([]byte, frameSize), make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(frame, oob)
	if err != nil {
		t.Fatal(err)
	}
	memory := mapPassed(t, oob[:n])
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(memory); i += 8 {
		le.PutUint64(memory[i:], random.Uint64()>>(random.Uint32()%64))
	}
	le.PutUint64(memory, 0)
	le.PutUint64(memory[8:], 0x1_0000_7fff) // calls begin everywhere
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				le.PutUint64(memory[sharedCallsAt+8*(i%1000):], i)
			}
		}
	}()
	conn.Close()
	s.server.Wait(patience)
	close(stop)
	<-stopped
	if len(s.ends) != 1 || len(seen.open) > openCalls {
		t.Errorf("%d ends, %d calls", len(s.ends), len(seen.open))
	}
	for _, c := range seen.open {
		if c.PID != uint32(os.Getpid()) || c.Flags != tracelog.CallUnfinished {
			t.Errorf("%+v", c)
		}
	}
}

// mapPassed maps the memory that a message brought, whose size is fixed.
func mapPassed(t *testing.T, oob []byte) []byte {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d control messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 2 {
		t.Fatalf("descriptors %v, %v", fds, err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	for _, size := range []int{0, sharedSize - 1, sharedSize + 1, 1 << 30} {
		if err := unix.Ftruncate(fds[0], int64(size)); err == nil {
			t.Errorf("the memory can have %d bytes", size)
		}
	}
	memory := must.Get(unix.Mmap(fds[0], 0, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { unix.Munmap(memory) })
	return memory
}

// TestCallLog notes the latest calls of more threads than are remembered: of the others it knows nothing,
// so they may have gone on.
func TestCallLog(t *testing.T) {
	t.Parallel()
	var l callLog
	for tid := range uint32(maxThreads + 10) {
		l.noteCall(tid, 100)
		l.noteCall(tid, 50)
	}
	if l.passed(5, 101) || !l.passed(5, 100) || !l.passed(5, 70) || !l.passed(maxThreads+3, 1000) || len(l.latest) != maxThreads {
		t.Errorf("%d threads are known", len(l.latest))
	}
	if (&callLog{}).passed(1, 5) {
		t.Error("a thread without calls has gone on")
	}
}
