package door

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	fakeCUDA = `void launch(void) { for (volatile int i = 0; i < 300000; i++); }`
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
	for range 20 {
		err := Shut(pid, func() error {
			for tid := range procfs.Threads(uint32(pid)) {
				s, ok := procfs.StatOfThread(uint32(pid), tid)
				if ok && s.State != 't' && s.State != 'X' && s.State != 'Z' {
					return fmt.Errorf("thread %d of %d is in state %c", tid, pid, s.State)
				}
			}
			return nil
		})
		switch err {
		case nil:
			shut++
		case ErrInside:
		default:
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
		d := door{pid: pid, threads: map[int]*thread{}}
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
