package door

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// state is that of a process's only thread.
func state(t *testing.T, pid int) byte {
	t.Helper()
	s, ok := procfs.StatOfThread(uint32(pid), uint32(pid))
	if !ok {
		t.Fatal("the process has ended")
	}
	return s.State
}

// TestShut stops the thread of a program that waits, for as long as the function takes and no longer.
func TestShut(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	input, output := pipetest.Start(t, cmd)
	pid := cmd.Process.Pid
	io.WriteString(input, "a")
	if b, err := output.Read(make([]byte, 1)); b != 1 { // it has started
		t.Fatal(err)
	}
	failure := errors.New("said so")
	for _, want := range []error{nil, failure} {
		err := Shut(pid, func() error {
			if s := state(t, pid); s != 't' {
				t.Errorf("in state %c meanwhile", s)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("Shut: %v, want %v", err, want)
		}
		if s := state(t, pid); s == 't' {
			t.Error("it stays stopped")
		}
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := Shut(pid, func() error { return nil }); err == nil {
		t.Error("no error of a process that has ended")
	}
}

// TestDebugged names the debugger of a process that has one.
func TestDebugged(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // which is the debugger
	defer runtime.UnlockOSThread()
	cmd := exec.Command("cat")
	input, _ := pipetest.Start(t, cmd)
	must.Do(t, unix.PtraceSeize(cmd.Process.Pid))
	called := false
	err := Shut(cmd.Process.Pid, func() error { called = true; return nil })
	if called || err == nil || !strings.Contains(err.Error(), "a debugger is attached") {
		t.Errorf("called %t, %v", called, err)
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUnknownStack does not take a thread for outside whose stack is of its program's own making, as those of Go are.
func TestUnknownStack(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestSpin$")
	cmd.Env = []string{"SPIN=1"}
	input, output := pipetest.Start(t, cmd)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	err := Shut(cmd.Process.Pid, func() error { t.Error("the door was shut"); return nil })
	if !errors.Is(err, ErrInside) {
		t.Errorf("Shut: %v", err)
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestSpin is the program of TestUnknownStack.
func TestSpin(*testing.T) {
	if os.Getenv("SPIN") == "" {
		return
	}
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	fmt.Println("ready")
	for n := 0; ; n++ {
		spun.Store(int64(n))
	}
}

var spun atomic.Int64

// TestLook holds what a stack tells.
func TestLook(t *testing.T) {
	t.Parallel()
	at := func(from, to uint64) procfs.Mapping { return procfs.Mapping{From: from, To: to} }
	c := code{{at(100, 200), program}, {at(300, 400), cuda}, {at(500, 600), locks}}
	for _, test := range []struct {
		pc    uint64
		words []uint64
		want  view
	}{
		{150, []uint64{0, 160, 550}, view{began: program}},
		{350, []uint64{7, 160, 170}, view{inside: true, returns: 160, began: program}},
		{550, []uint64{310, 110, 320, 99, 120, 130, 510}, view{inside: true, returns: 120, began: program}},
		{550, []uint64{310, 510}, view{inside: true, began: cuda}},
		{450, []uint64{200, 299, 400, 600}, view{}},
	} {
		if got := c.look(test.pc, test.words); got != test.want {
			t.Errorf("%d %v: %+v, want %+v", test.pc, test.words, got, test.want)
		}
	}
	for path, want := range map[string]kind{
		"/usr/lib/libcuda.so.580.1": cuda, "/a/libcupti.so.13": cuda, "/tmp/x/recording-7-1.so": cuda, "/lib/libc.so.6": locks,
		"/lib64/ld-linux-x86-64.so.2": locks, "/opt/libtorch_cuda.so": program, "": program,
	} {
		if got := kindOf(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// TestFinalize has a program switch CUPTI on and finalize it many times, on a GPU: testdata/gpu/finalize.cu.
func TestFinalize(t *testing.T) {
	command := strings.Fields(os.Getenv("FINALIZE"))
	rounds, _ := strconv.Atoi(os.Getenv("ROUNDS"))
	if len(command) == 0 || rounds == 0 {
		t.Skip("needs a GPU: FINALIZE and ROUNDS are not set")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	input, output := pipetest.Start(t, cmd)
	answers := bufio.NewReader(output)
	tell := func(letter string) (n int, err error) {
		_, err = io.WriteString(input, letter)
		line, failed := answers.ReadString('\n')
		n, wrong := strconv.Atoi(strings.TrimSpace(line))
		return n, errors.Join(err, failed, wrong)
	}
	pid := cmd.Process.Pid
	// launch is the time of a launch, divided by that of a loop on the processor just before and behind
	launch := func() float64 {
		times := make([]float64, 31)
		for i := range times {
			s1, err1 := tell("s")
			n, err2 := tell("t")
			s2, err3 := tell("s")
			must.Do(t, errors.Join(err1, err2, err3))
			times[i] = 2 * float64(n) / float64(s1+s2)
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	before := launch()
	// shut has the program do something while its other threads are stopped, and returns how often that took a new try
	var longest time.Duration
	shut := func(letter string) (tries int, err error) {
		for tries = 1; ; tries++ {
			began := time.Now()
			done := func() error {
				if n, err := tell(letter); n != 0 || err != nil {
					return fmt.Errorf("%s returned %d, %w", letter, n, err)
				}
				return nil
			}
			if err = shutBut(pid, pid, done); !errors.Is(err, ErrInside) || tries == 100 {
				longest = max(longest, time.Since(began))
				return tries, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	again := 0
	for i := range rounds {
		for _, letter := range []string{"e", "f"} {
			tries, err := shut(letter)
			if err != nil {
				t.Fatalf("round %d of %d, %s: %v", i+1, rounds, letter, err)
			}
			again += tries - 1
			time.Sleep(2 * time.Millisecond)
		}
	}
	after := launch()
	wrong, err := tell("q")
	input.Close()
	if failed := cmd.Wait(); wrong != 0 || err != nil || failed != nil {
		t.Errorf("wrong %d, %v; the program ended with %v", wrong, err, failed)
	}
	fmt.Printf("%-24s %6d rounds, %d tries more, stopped %.1f ms at most; a launch took x %.3f of the time before\n",
		strings.Join(command[1:], " "), rounds, again, float64(longest)/1e6, after/before)
}
