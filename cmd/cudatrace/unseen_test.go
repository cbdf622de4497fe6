package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
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
	if !strings.Contains(string(out), "is not recorded: it has loaded the injected library and did not reach the recorder") {
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
	const reason = "it runs as user 65534, who cannot load the injected library of user 0 (start cudatrace as user 65534; of a program that changes its user itself 'cudatrace record -p "
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

// TestShortCleanedEnvironment records programs that use CUDA for a moment, with the recorder standing still meanwhile, in a cleaned
// environment, with another's library, after exec, and after their parent's end: each is named, and the log is not complete.
func TestShortCleanedEnvironment(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	base, short := filepath.Join(t.TempDir(), "run"), sim("vectoradd")
	script := short + "; kill -STOP $PPID; env -i " + short + "; CUDA_INJECTION64_PATH=/other " + short +
		"; (env -i setsid sh -c '" + short + "; exec " + short + "' &) | cat; kill -CONT $PPID"
	script = "sh -c " + strconv.Quote(strings.ReplaceAll(script, "$PPID", "\\$R")) + "; exec " + short
	out := must.Run(t, exec.Command("cudatrace", "record", "-o", base, "sh", "-c", "R=$PPID; export R; "+script))
	info, err := exec.Command("cudatrace", "info", base+".cudatrace").CombinedOutput()
	if err != nil || !strings.Contains(string(info), "complete          no") {
		t.Errorf("%v\n%s", err, info)
	}
	said := regexp.MustCompile(`(?m)^cudatrace: vectoradd \(\d+\) (may have used CUDA unrecorded: it opened the GPU driver's device, as NVML does, too, and never loaded the injected library|is not recorded)`).FindAll(out, -1)
	if len(said) != 4 {
		t.Errorf("%d of 4 programs are named\n%s\n%s", len(said), out, info)
	}
}

// TestNothingWatched records a program that uses no CUDA: with rights that is known, without it is said why it is not.
func TestNothingWatched(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	dir := t.TempDir()
	record := func(user string, program ...string) string {
		t.Helper()
		command := append(append(strings.Fields(user), "cudatrace", "record", "-q", "--no-convert", "-o", filepath.Join(dir, "run")), program...)
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got := record("", "sleep", "0.1"); got != "" {
		t.Errorf("it is said: %s", got)
	}
	const why = "without CAP_SYS_ADMIN the kernel does not tell who opens /dev/nvidia-uvm (start the container with --cap-add SYS_ADMIN)"
	const bounded = "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
	out, err := exec.Command("setpriv", append(strings.Fields(bounded)[1:], "cudatrace", "record", "-o", filepath.Join(dir, "run"), "sleep", "0.1")...).CombinedOutput()
	const want = "cudatrace: sleep was not seen to use CUDA; nothing was recorded; whether a process did unrecorded is not known: " + why + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	record(bounded, sim("vectoradd"))
	info, err := exec.Command("cudatrace", "info", filepath.Join(dir, "run.cudatrace")).CombinedOutput()
	if err != nil || !strings.Contains(string(info), "complete          for the 1 process that loaded the library; others are not known\n") ||
		!strings.Contains(string(info), "note              complete for the 1 process that loaded the library; others are not known: "+why) {
		t.Errorf("%v\n%s", err, info)
	}
}

// TestTranslated records a program whose code valgrind translates: it ends as alone. Where breakpoints would be put into it, a line
// says why it is not probed.
func TestTranslated(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("valgrind"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and valgrind")
	}
	for calls, said := range map[string]bool{"auto": true, "cupti": false} {
		base := filepath.Join(t.TempDir(), "run")
		out, err := exec.Command("cudatrace", "record", "-q", "--no-convert", "--calls", calls, "-o", base, "valgrind", "-q", "--tool=none", sim("vectoradd")).CombinedOutput()
		if err != nil || strings.Contains(string(out), "is not probed: valgrind translates its code") != said || !strings.Contains(string(out), "sum ok") {
			t.Errorf("--calls %s: %v\n%s", calls, err, out)
		}
	}
}
