package door

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

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
		err := shutSoon(pid, func() error {
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
	c := code{{at(100, 200), program, nil}, {at(300, 400), cuda, nil}, {at(500, 600), locks, nil}}
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
	for _, test := range []struct {
		words []uint64
		want  bool
	}{{[]uint64{0, 310, 550}, true}, {[]uint64{0, 160, 550}, false}, {[]uint64{310, 160}, false}, {nil, false}} {
		if got := c.startsInCUDA(test.words); got != test.want {
			t.Errorf("%v: started in CUDA: %t", test.words, got)
		}
	}
	for path, want := range map[string]kind{
		"/usr/lib/libcuda.so.580.1": cuda, "/a/libcupti.so.13": cuda, "/tmp/x/recording-7-1.so": cuda, "/lib/libc.so.6": locks,
		"/lib64/ld-linux-x86-64.so.2": locks, "/opt/libtorch_cuda.so": program, "/opt/recording-service": program, "": program,
	} {
		if got := kindOf(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
