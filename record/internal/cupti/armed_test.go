package cupti

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// start starts a process that would load the library, and finds it.
func startArmed(t *testing.T, library string) ArmedProcess {
	t.Helper()
	return startArmedAs(t, library, os.Getuid(), os.Geteuid())
}

// startAs starts the process as one user, with the rights of another one.
func startArmedAs(t *testing.T, library string, uid, euid int) ArmedProcess {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestArmedHelper$")
	cmd.Env = []string{InjectionVar + "=" + library, fmt.Sprintf("HELPER=%d %d", uid, euid)}
	input, output := pipetest.Start(t, cmd)
	t.Cleanup(func() { input.Close(); cmd.Wait() })
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the process said %q, %v", said, err)
	}
	return LookForArmed(cmd.Process.Pid)
}

// TestArmedHelper is the process of start.
func TestArmedHelper(t *testing.T) {
	var uid, euid int
	if n, _ := fmt.Sscan(os.Getenv("HELPER"), &uid, &euid); n < 2 {
		return
	}
	if err := syscall.Setresuid(uid, euid, euid); err != nil {
		fmt.Println(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// arm makes a folder of armed programs.
func armFolder(t *testing.T) (library string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	setting := must.Get(Arm(100))(t)
	t.Cleanup(func() { Disarm(setting) })
	return strings.TrimPrefix(setting, InjectionVar+"=")
}

func TestLookForArmed(t *testing.T) {
	if p := startArmed(t, armFolder(t)); p.State != ArmedFresh {
		t.Errorf("an armed process is %+v", p)
	}
	for _, library := range []string{"", "relative/libcudatrace.so", "/nowhere/libcudatrace.so", "/opt/other.so", filepath.Join(t.TempDir(), "libcudatrace.so")} {
		if p := startArmed(t, library); p.State != NotArmed {
			t.Errorf("%q: %+v", library, p)
		}
	}
	if p := LookForArmed(1 << 22); p.State != NotArmed {
		t.Errorf("nobody is %+v", p)
	}
}

// TestOpen has two processes of one folder called together. A second recorder cannot call them; after the first one,
// whose socket may have been left behind, it can.
func TestCallArmed(t *testing.T) {
	library := armFolder(t)
	both := []ArmedProcess{startArmed(t, library), startArmed(t, library)}
	calls, refused := CallArmed(both)
	if len(calls) != 1 || len(calls[0].PIDs) != 2 || len(refused) != 0 {
		t.Fatalf("%d calls, refused %v", len(calls), refused)
	}
	if err := calls[0].Ring(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("unix", filepath.Join(filepath.Dir(library), "sock")); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	if more, refused := CallArmed(both); len(more) != 0 || !errors.Is(refused[both[0].PID], errBusy) {
		t.Errorf("a second recorder: %d calls, refused %v", len(more), refused)
	}
	if err := calls[0].Close(); err != nil {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(library), "sock"), nil, 0o600))
	again, refused := CallArmed(both)
	if len(again) != 1 || len(refused) != 0 {
		t.Fatalf("later: %d calls, refused %v", len(again), refused)
	}
	if err := again[0].Close(); err != nil {
		t.Error(err)
	}
}

// TestArmedPatience has an armed process wait for longer for an answer than one that starts CUDA: nothing of the program
// waits.
func TestArmedPatience(t *testing.T) {
	t.Parallel()
	path := must.Get(privatefolder.MakeArmed([]string{t.TempDir()}, library, 100))(t)
	cmd := play{simProgram(t, "told"), nil, []string{InjectionVar + "=" + path}}.command(t, os.Environ())
	input, _ := started(t, cmd)
	var p ArmedProcess
	must.Wait(t, func() bool {
		p = LookForArmed(cmd.Process.Pid)
		return p.State == ArmedWaiting
	}, func() string { return fmt.Sprintf("it is %+v", p) })
	calls, refused := CallArmed([]ArmedProcess{p})
	if len(calls) != 1 {
		t.Fatal(refused)
	}
	must.Do(t, calls[0].Ring())
	must.Do(t, calls[0].Entrance.Listener.SetDeadline(time.Now().Add(patience)))
	conn := must.Get(calls[0].Entrance.Listener.AcceptUnix())(t)
	hello := must.Get(io.ReadAll(conn))(t) // until it gives up
	if len(hello) < frameSize+16 {
		t.Fatalf("it said %x", hello)
	}
	if waited := time.Duration(monotonic() - le.Uint64(hello[frameSize+8:])); waited < 2*helloPatience {
		t.Errorf("it waited for %v", waited)
	}
	if err := errors.Join(conn.Close(), calls[0].Close(), input.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// TestHostileFolder finds folders that are not as 'cudatrace run' makes them.
func TestHostileArmedFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must.Do(t, os.WriteFile(outside, make([]byte, 4096), 0o600))
	for name, spoil := range map[string]func(dir string) error{
		"not its user's own": func(dir string) error { return os.Chmod(dir, 0o755) },
		"cudatrace's":        func(dir string) error { return os.Truncate(filepath.Join(dir, "armed"), 8) },
		"symbolic links": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "armed")), os.Symlink(outside, filepath.Join(dir, "armed")))
		},
	} {
		library := armFolder(t)
		p := startArmed(t, library)
		must.Do(t, spoil(filepath.Dir(library)))
		calls, refused := CallArmed([]ArmedProcess{p})
		if err := refused[p.PID]; len(calls) != 0 || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d calls, refused %v", name, len(calls), refused)
		}
	}
	if content, err := os.ReadFile(outside); err != nil || strings.Trim(string(content), "\x00") != "" {
		t.Errorf("a file outside was written: %v", err)
	}
}

// TestRootsFolder has processes that another user started name a folder of root's, with what a recorder removes: it stays.
func TestRootsArmedFolder(t *testing.T) {
	must.BeRoot(t)
	const nobody = 65534
	library := armFolder(t)
	sock := filepath.Join(filepath.Dir(library), "sock")
	must.Do(t, os.WriteFile(sock, nil, 0o600))
	for name, euid := range map[string]int{"a user's": nobody, "with root's rights": 0} {
		p := startArmedAs(t, library, nobody, euid)
		calls, refused := CallArmed([]ArmedProcess{p})
		if err := refused[p.PID]; p.State != ArmedFresh || len(calls) != 0 || err == nil || !strings.Contains(err.Error(), "not its user's own") {
			t.Errorf("%s: %+v, %d calls, refused %v", name, p, len(calls), refused)
		}
		for _, c := range calls {
			c.Close()
		}
		if _, err := os.Stat(sock); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
