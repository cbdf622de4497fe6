package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// without returns a command that runs a program to which a system call is denied: NAME PROGRAM [ARG...].
func without(call uint32, errno unix.Errno) func() {
	return func() { runWithout(call, errno) }
}

func runWithout(call uint32, errno unix.Errno) {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		log.Fatal(err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		log.Fatal(err)
	}
	log.Fatal(syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
}

// TestWithoutSockets records a program that cannot connect to the recorder: it runs as ever, and it is
// not said that nobody saw it use CUDA.
func TestWithoutSockets(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("cudatrace", "record", "-o", filepath.Join(t.TempDir(), "run"), "nosocket", sim("vectoradd")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sum ok") {
		t.Errorf("the program did not run: %v", err)
	}
	if !strings.Contains(string(out), "nothing was recorded: a process used CUDA: it has loaded the injected library and did not reach the recorder") {
		t.Errorf("the reason is not said:\n%s", out)
	}
}

// TestRightsDropped records a program that runs as another user than the recorder's: the library is in
// a folder that it cannot enter.
func TestRightsDropped(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and setpriv to become another user")
	}
	b := recordInBackground(t, setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", sim("longrun"), long)
	const reason = "it runs as user 65534, who cannot load the injected library of user 0 (start cudatrace as user 65534)"
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), reason) })
	syscall.Kill(longrunPID(t, b.out(t)), syscall.SIGTERM)
	if got := b.end(t); got != 0 || !strings.Contains(b.recording.stderr, "nothing was recorded: longrun (") || strings.Contains(b.recording.stderr, "was not seen to use CUDA") {
		t.Errorf("exit code %d\n%s", got, b.recording.stderr)
	}
}

// TestCleanedEnvironment records a program that is started without the variable by which the driver loads the library.
func TestCleanedEnvironment(t *testing.T) {
	t.Parallel()
	b := recordInBackground(t, "env", "-i", sim("longrun"), long)
	const reason = "it was started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out): pass it on (env -i CUDA_INJECTION64_PATH=\"$CUDA_INJECTION64_PATH\" PROGRAM, sudo --preserve-env=CUDA_INJECTION64_PATH PROGRAM)"
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), reason) })
	syscall.Kill(longrunPID(t, b.out(t)), syscall.SIGTERM)
	if got := b.end(t); got != 0 || !strings.Contains(b.recording.stderr, "nothing was recorded: longrun (") {
		t.Errorf("exit code %d\n%s", got, b.recording.stderr)
	}
}

// TestShortCleanedEnvironment records programs that use CUDA for a twentieth of a second in a cleaned environment: each
// is named, unless it is said that nobody looked for so long, when recording ends and in the log.
func TestShortCleanedEnvironment(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	script := sim("vectoradd") + "; for i in 1 2 3 4; do env -i " + sim("longrun") + " 0.05; done"
	out, err := exec.Command("cudatrace", "record", "-o", base, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := exec.Command("cudatrace", "info", base+".cudatrace").CombinedOutput()
	if err != nil && len(info) == 0 {
		t.Fatalf("%v\n%s", err, info)
	}
	said := regexp.MustCompile(`(?m)^cudatrace: longrun \(\d+\) .* was started without CUDA_INJECTION64_PATH in its environment`).FindAll(out, -1)
	const watched = "a process started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out) may have gone unnoticed if it used CUDA for less than "
	if len(said) != 4 && !(strings.Contains(string(out), "\n  note: "+watched) && strings.Contains(string(info), watched)) {
		t.Errorf("%d of 4 programs are named, and it is not said what was watched\n%s\n%s", len(said), out, info)
	}
}

// TestStoppedLooks has the recorder stand still while a program starts and ends in a cleaned environment: the summary and info say for
// how long nobody looked.
func TestStoppedLooks(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	script := sim("vectoradd") + "; kill -STOP $PPID; env -i " + sim("longrun") + " 0.05; kill -CONT $PPID"
	out, err := exec.Command("cudatrace", "record", "-o", base, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := exec.Command("cudatrace", "info", base+".cudatrace").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, info)
	}
	const watched = " +a process started without CUDA_INJECTION64_PATH in its environment .* may have gone unnoticed if it used CUDA for less than "
	if !regexp.MustCompile("(?m)^  note:"+watched).Match(out) || !regexp.MustCompile("(?m)^note"+watched).Match(info) {
		t.Errorf("it is not said what was watched\n%s\n%s", out, info)
	}
}

// TestNothingWatched records a program that uses no CUDA, as far as anyone can tell.
func TestNothingWatched(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("cudatrace", "record", "-o", filepath.Join(t.TempDir(), "run"), "sleep", "0.1").CombinedOutput()
	const want = "cudatrace: sleep was not seen to use CUDA; nothing was recorded; a process started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out) may have gone unnoticed if it used CUDA for less than "
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}
