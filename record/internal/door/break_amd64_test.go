package door

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	fakeCUDA = `
#include <pthread.h>
#include <unistd.h>
void launch(void) { for (volatile int i = 0; i < 300000; i++); }
void call_back(void (*f)(int), int n) { f(n); __asm__ volatile("" ::: "memory"); }
static void waits_inside(int n) { char c; if (read(n, &c, 1) != 1) _exit(1); }
void *serve(void *n) { call_back(waits_inside, *(int *)n); return n; }
int start_serving(pthread_t *t, int *n) { return pthread_create(t, NULL, serve, n); }
`
	// threads that wait, on stacks where CUDA's functions have been: outside, inside, and outside again
	waiter = `
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
void call_back(void (*f)(int), int n);
static void nothing(int n) { (void)n; }
static void wait(int fd)
{
	char room[4096]; // over what is left of calls
	if (read(fd, room + sizeof room - 1, 1) != 1)
		_exit(1);
}
static void *other(void *arg)
{
	call_back(nothing, 0);
	wait(*(int *)arg);
	return arg;
}
int main(void)
{
	int ends[2];
	pthread_t t;
	if (pipe(ends) != 0 || pthread_create(&t, NULL, other, ends) != 0)
		return 1;
	call_back(nothing, 0);
	for (int turn = 0; turn < 3; turn++) {
		puts("waits");
		fflush(stdout);
		turn == 1 ? call_back(wait, 0) : wait(0);
	}
	return write(ends[1], "x", 1) != 1 || pthread_join(t, NULL) != 0;
}
`
	// a thread that waits, on a stack with a page that somebody is to fill in
	lacking = `
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
void call_back(void (*f)(int), int n);
static void wait(int fd)
{
	char c;
	if (read(fd, &c, 1) != 1)
		_exit(1);
}
static volatile char *kept;
int main(void)
{
	char room[1 << 16]; // never touched
	kept = room;
	int fd = (int)syscall(SYS_userfaultfd, 0);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {{((uintptr_t)room + 8191) & ~4095ull, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
	puts(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &r) == 0 ? "waits" : "cannot");
	fflush(stdout);
	wait(0);
	return 0;
}
`
	// a thread that waits inside CUDA, where unwind tables alone could tell that it is outside
	hidden = `
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
void call_back(void (*f)(int), int n);
static void wait(int sig)
{
	char c;
	(void)sig;
	if (read(0, &c, 1) != 1)
		_exit(1);
}
static void in_handler(int flags)
{
	char room[65536];
	struct sigaction action = {.sa_handler = wait, .sa_flags = flags};
	stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
}
void begins(int n);
void returns(int n);
void pushes(int n);
void shifts(int n);
void framed(int n);
extern char first[];
char taken;
void **frame; // none's, where CUDA's function has its caller's
__asm__(
"begins: .cfi_startproc\n .cfi_undefined rip\n" // a coroutine, on a stack that lies in another function's
"	push %rbp\n mov %rsp, %rbp\n sub $4096, %rsp\n call waits_for\n leave\n ret\n .cfi_endproc\n"
"returns: .cfi_startproc\n" // it says for a moment that it has no caller
"	sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n .cfi_undefined rip\n nop\n .cfi_restore rip\n"
"	call waits_for\n add $8, %rsp\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n"
"first: .cfi_startproc\n .cfi_undefined rip\n nop\n nop\n ret\n .cfi_endproc\n"
"pushes: .cfi_startproc\n" // its unwind tables do not know of what it pushes: a function, which is none's caller
"	lea first+1(%rip), %rax\n push %rax\n call waits_for\n pop %rax\n ret\n .cfi_endproc\n"
"shifts: sub $4, %rsp\n xor %eax, %eax\n xor %edi, %edi\n lea taken(%rip), %rsi\n mov $1, %edx\n"
"	syscall\n add $4, %rsp\n ret\n" // words of the stack are at other addresses
"framed: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset rbp, -16\n mov %rsp, %rbp\n"
"	.cfi_def_cfa_register rbp\n call takes\n leave\n .cfi_def_cfa rsp, 8\n ret\n .cfi_endproc\n"
"takes: .cfi_startproc\n push %rbp\n .cfi_adjust_cfa_offset 8\n .cfi_undefined rbp\n" // which framed needs
"	mov frame(%rip), %rbp\n call waits_for\n pop %rbp\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n");
void waits_for(void) { wait(0); __asm__ volatile("" ::: "memory"); }
int main(void)
{
	static const struct { void (*f)(int); int n; } turns[] = {
		{in_handler, 0}, {in_handler, SA_ONSTACK}, {begins, 0}, {returns, 0}, {pushes, 0}, {shifts, 0},
		{framed, 0},
	};
	void *room[] = {NULL, first + 1};
	frame = room;
	for (unsigned i = 0; i < sizeof turns / sizeof *turns; i++) {
		puts("waits");
		fflush(stdout);
		call_back(turns[i].f, turns[i].n);
	}
	return 0;
}
`
	// a thread that CUDA starts, with the program's name, and one of the program's that is inside CUDA with no frame of its own
	own = `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
int start_serving(pthread_t *t, int *n);
void *goes_on(void *n);
__asm__("goes_on: jmp serve@plt\n");
int main(void)
{
	char c;
	pthread_t t;
	for (int turn = 0; turn < 2; turn++) {
		int ends[2];
		if (pipe(ends) != 0 || (turn == 0 ? start_serving(&t, ends) : pthread_create(&t, NULL, goes_on, ends)) != 0)
			return 1;
		puts("waits");
		fflush(stdout);
		if (read(0, &c, 1) != 1 || write(ends[1], "x", 1) != 1 || pthread_join(t, NULL) != 0)
			return 1;
	}
	return 0;
}
`
	// a thread that is hardly ever outside of CUDA, and starts another one now and then
	launcher = `
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
void launch(void);
static void *wait(void *arg) { return usleep(1000), arg; }
static void *run(void *arg)
{
	pthread_t t;
	for (unsigned i = 0;; i++) {
		launch();
		if (i % 16 == 0 && pthread_create(&t, NULL, wait, NULL) == 0)
			pthread_detach(t);
	}
	return arg;
}
static void trap(int sig) { (void)sig; } // as the injected library's
int main(void)
{
	pthread_t t;
	char c;
	signal(SIGTRAP, trap);
	pthread_create(&t, NULL, run, NULL);
	puts("ready");
	fflush(stdout);
	return (int)read(0, &c, 1);
}
`
)

// buildWithCUDA builds a program that has a library named as CUDA's.
func buildWithCUDA(t *testing.T, dir, source string) (path string) {
	t.Helper()
	build := func(out, source string, args ...string) {
		file := filepath.Join(dir, out+".c")
		must.Do(t, os.WriteFile(file, []byte(source), 0o600))
		must.Run(t, exec.Command("gcc", append([]string{"-O1", "-o", filepath.Join(dir, out), file}, args...)...))
	}
	build("libcuda.so.1", fakeCUDA, "-shared", "-fPIC")
	build("program", source, "-L"+dir, "-l:libcuda.so.1", "-Wl,-rpath,"+dir, "-pthread")
	return filepath.Join(dir, "program")
}

// shutSoon is Shut, again while a thread counts as inside: where processors are busy, one try may not last long enough.
func shutSoon(pid int, do func() error) (err error) {
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if err = Shut(pid, do); !errors.Is(err, ErrInside) || time.Now().After(late) {
			return err
		}
	}
}

// TestLeftBehind shuts the door where words on the stacks of threads that wait look like calls of CUDA's, which have returned,
// and not while one is inside.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), waiter))
	input, output := pipetest.Start(t, cmd)
	lines := bufio.NewReader(output)
	for turn := range 3 {
		if line, err := lines.ReadString('\n'); line != "waits\n" {
			t.Fatal(line, err)
		}
		awaitReads(t, cmd.Process.Pid)
		done, inside, shut := false, turn == 1, shutSoon
		if inside {
			shut = Shut
		}
		err := shut(cmd.Process.Pid, func() error { done = true; return nil })
		if done == inside || errors.Is(err, ErrInside) != inside {
			t.Errorf("turn %d: %t, %v", turn, done, err)
		}
		input.Write([]byte("x"))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestFilesLate has a program go on while its files do not answer, and asks again the next time. Not in parallel: it
// replaces how files are opened.
func TestFilesLate(t *testing.T) {
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), waiter))
	input, output := pipetest.Start(t, cmd)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "waits\n" {
		t.Fatal(line, err)
	}
	awaitReads(t, cmd.Process.Pid)
	answers := make(chan struct{})
	openMapped = func(m procfs.Mapping, pid int) (*os.File, error) { <-answers; return m.Open(pid) }
	defer func() { openMapped = procfs.Mapping.Open }()
	began := time.Now()
	late := time.AfterFunc(10*time.Second, func() { close(answers) })
	err := Shut(cmd.Process.Pid, func() error { return nil })
	if took := time.Since(began); !errors.Is(err, ErrInside) || took > 2*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	if late.Stop() {
		close(answers)
	}
	if err := shutSoon(cmd.Process.Pid, func() error { return nil }); err != nil {
		t.Error(err)
	}
	input.Write([]byte("xxx"))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestPagesLate has a program go on of whose stack a page does not come.
func TestPagesLate(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), lacking))
	input, output := pipetest.Start(t, cmd)
	if line, err := bufio.NewReader(output).ReadString('\n'); line == "cannot\n" {
		t.Skip("userfaultfd")
	} else if line != "waits\n" {
		t.Fatal(line, err)
	}
	awaitReads(t, cmd.Process.Pid)
	kill := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	began := time.Now()
	err := Shut(cmd.Process.Pid, func() error { return nil })
	if took := time.Since(began); !errors.Is(err, ErrInside) || took > 2*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	kill.Stop()
	input.Write([]byte("x"))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestHidden leaves the door open while a thread is inside, whatever lies between CUDA's function and the wait.
func TestHidden(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), hidden))
	input, output := pipetest.Start(t, cmd)
	for lines, turn := bufio.NewScanner(output), 0; lines.Scan(); turn++ {
		awaitReads(t, cmd.Process.Pid)
		if err := Shut(cmd.Process.Pid, func() error { return nil }); !errors.Is(err, ErrInside) {
			t.Errorf("turn %d: %v", turn, err)
		}
		input.Write([]byte("x"))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestOwn leaves a thread of CUDA's alone, whatever its name, but not one of the program's that looks the same.
func TestOwn(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), own))
	input, output := pipetest.Start(t, cmd)
	l := life{pid: cmd.Process.Pid}
	for lines, turn := bufio.NewScanner(output), 0; lines.Scan(); turn++ {
		awaitReads(t, l.pid)
		shut := shutSoon
		if turn == 1 {
			shut = Shut
		}
		err := shut(l.pid, func() error {
			for tid := range procfs.Threads(uint32(l.pid)) {
				if want := int(tid) == l.pid; l.stopped(tid) != want {
					t.Errorf("thread %d of %d is stopped: %t", tid, l.pid, !want)
				}
			}
			return nil
		})
		if turn == 0 && err != nil || turn == 1 && !errors.Is(err, ErrInside) {
			t.Errorf("turn %d: %v", turn, err)
		}
		input.Write([]byte("x"))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// awaitReads waits until all threads of a process wait in read.
func awaitReads(t *testing.T, pid int) {
	t.Helper()
	all := func() bool {
		for tid := range procfs.Threads(uint32(pid)) {
			call, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
			if err != nil || !strings.HasPrefix(string(call), "0 ") {
				return false
			}
		}
		return true
	}
	must.Wait(t, all, func() string { return "not all of its threads wait in read" })
}

// startLauncher returns the PID of the program, and what ends it and checks that it was not harmed.
func startLauncher(t *testing.T) (pid int, end func()) {
	t.Helper()
	must.BeRoot(t)
	cmd := exec.Command(buildWithCUDA(t, t.TempDir(), launcher))
	input, output := pipetest.Start(t, cmd)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	return cmd.Process.Pid, func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended with %v", err)
		}
	}
}

// TestBreakpoint stops a thread that is hardly ever outside of CUDA where its call returns, and all others.
func TestBreakpoint(t *testing.T) {
	t.Parallel()
	pid, end := startLauncher(t)
	defer end()
	shut := 0
	for i := 0; i < 20 || shut == 0 && i < 4000; i++ {
		err := Shut(pid, func() error {
			for tid := range procfs.Threads(uint32(pid)) {
				s, ok := procfs.StatOfThread(uint32(pid), tid)
				if ok && s.State != 't' && s.State != 'X' && s.State != 'Z' {
					return fmt.Errorf("thread %d of %d is in state %c", tid, pid, s.State)
				}
			}
			return nil
		})
		if err == nil {
			shut++
		} else if !errors.Is(err, ErrInside) {
			t.Error(err)
		}
	}
	if shut == 0 {
		t.Error("the door was never shut")
	}
}

// TestBreakpointOfADeadRecorder ends the tracing thread while a breakpoint is set: the program lives.
func TestBreakpointOfADeadRecorder(t *testing.T) {
	t.Parallel()
	pid, end := startLauncher(t)
	defer end()
	must.Do(t, onThreadOfItsOwn(func() error {
		d := door{pid: pid, threads: map[int]*thread{}, memory: procfs.Memory{PID: pid}}
		var err error
		if d.code, err = readCode(pid); err != nil {
			return err
		}
		for late := time.Now().Add(10 * time.Second); time.Now().Before(late); {
			if _, err := d.seize(); err != nil {
				return err
			}
			for _, th := range d.threads {
				if err := d.try(th, true); err != nil {
					return err
				}
				if th.stopped { // it happened to be outside
					th.stopped = false
					if err := d.goOn(th, 0); err != nil {
						return err
					}
				}
				if !th.broken {
					continue
				}
				if there, err := d.stop(th); err != nil {
					return err
				} else if there {
					return unix.Close(th.event) // as the end of the recorder does
				}
			}
		}
		return fmt.Errorf("no breakpoint was set")
	}))
	time.Sleep(20 * time.Millisecond) // calls of launch return meanwhile
}
