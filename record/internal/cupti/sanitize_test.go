package cupti

import (
	"fmt"
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
)

// sanitized builds the library with a sanitizer.
var sanitized = map[string]func() (string, error){
	"address": buildOnce("address", "-C", "inject", "host", "SANITIZE=address"),
	"thread":  buildOnce("thread", "-C", "inject", "host", "SANITIZE=thread"),
}

// sanitizedLibrary returns the library and the environment that it needs.
func sanitizedLibrary(t *testing.T, which string) ([]byte, []string) {
	t.Helper()
	dir := must.Get(sanitized[which]())(t)
	built := must.Get(os.ReadFile(filepath.Join(dir, privatefolder.LibraryName)))(t)
	runtime := map[string]string{"address": "libasan.so", "thread": "libtsan.so"}[which]
	found, err := exec.Command("gcc", "-print-file-name="+runtime).Output()
	preload := strings.TrimSpace(string(found))
	if err != nil || !filepath.IsAbs(preload) {
		t.Skipf("this compiler has no %s", runtime)
	}
	return built, []string{"LD_PRELOAD=" + preload, "ASAN_OPTIONS=exitcode=55", "TSAN_OPTIONS=exitcode=55:atexit_sleep_ms=100"}
}

// TestSanitized runs endings with the library built for a sanitizer: a finding changes the exit code and prints.
func TestSanitized(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"address", "thread"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			built, env := sanitizedLibrary(t, which)
			testEndings(t, Options{library: built}, env...)
		})
	}
}

// TestOperatorsSanitized switches the operators of a program with many threads on and off, also while it forks and at its
// end.
func TestOperatorsSanitized(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"", "address", "thread"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			var o Options
			said := filepath.Join(t.TempDir(), "addresses")
			args := []string{said}
			var env []string
			if which == "thread" {
				args = append(args, "without forks")
			}
			if which != "" {
				o.library, env = sanitizedLibrary(t, which)
				dir := must.Get(sim())(t)
				// A sanitizer stands before dlopen: the path that the simulated libraries have for one another is not seen.
				// They keep what they allocate.
				env = append(env, "LD_LIBRARY_PATH="+filepath.Join(dir, "lib"), "ASAN_OPTIONS=exitcode=55:detect_leaks=0")
				// Nor does one see what orders their threads: they are not built for it.
				theirs := filepath.Join(t.TempDir(), "suppressed")
				must.Do(t, os.WriteFile(theirs, []byte("called_from_lib:libcuda.so\n"), 0o600))
				env = append(env, "TSAN_OPTIONS=exitcode=55:atexit_sleep_ms=100:suppressions="+theirs)
			}
			s := newStage(t, o, GoConfig{Callers: true, Python: true, Torch: true})
			ended := make(chan struct{})
			var switching sync.WaitGroup
			switching.Go(func() { s.switchTorch(said, ended) })
			stdout, stderr, code := s.run(t, play{buildOnSim(t, "testdata/operators.c"), args, env})
			close(ended)
			switching.Wait()
			expect(t, stdout, stderr, code, "")
			// How many stacks there are is the speed of the machine: each time that operators are on, a few more.
			if s.counts["operator_stack"] == 0 || s.counts["memset"] < 4*300*3 {
				t.Errorf("%v arrived", s.counts)
			}
		})
	}
}

// switchTorch switches the operators of a process that writes the addresses of PyTorch's functions to a file, until a
// channel is closed.
func (s *stage) switchTorch(file string, ended <-chan struct{}) {
	addresses := map[string]uint64{}
	for on := true; ; {
		select {
		case <-ended:
			return
		case <-time.After(2 * time.Millisecond):
		}
		if _, whole := addresses["end"]; !whole {
			text, _ := os.ReadFile(file) // it is not there yet
			for line := range strings.Lines(string(text)) {
				var name string
				var address uint64
				if n, _ := fmt.Sscan(line, &name, &address); n == 2 {
					addresses[name] = address
				}
			}
			continue
		}
		s.audience.mu.Lock()
		pid := s.peers[0].PID
		s.audience.mu.Unlock()
		s.server.SetTorch(pid, TorchAt(func(name string) uint64 { return addresses[name] }), on)
		on = !on
	}
}

// TestValgrind looks for reads of what was never written, and for leaks at exit.
func TestValgrind(t *testing.T) {
	t.Parallel()
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("there is no valgrind")
	}
	dir := must.Get(fake())(t)
	s := newStage(t, Options{}, GoConfig{})
	stdout, stderr, code := s.run(t, play{valgrind, []string{
		"-q", "--error-exitcode=55", "--leak-check=full", "--errors-for-leak-kinds=definite,possible",
		filepath.Join(dir, "program"), "return", "3", "200",
	}, nil})
	expect(t, stdout, stderr, code, "launched 600 dropped 0\n")
	s.whole(t, 600)
}

func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, s *Server) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(s.dir, privatefolder.SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestLeakSanitizer runs programs that look for leaks at their end: the buffers that CUPTI got from the library are none,
// and another client of CUPTI may free them. Real CUPTI hangs where LeakSanitizer is alone.
func TestLeakSanitizer(t *testing.T) {
	t.Parallel()
	for kind, fills := range map[string]uint64{"leak": 0, "address": 200} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			program, suppressed := buildOnSim(t, "testdata/leaks.c", "-fsanitize="+kind), filepath.Join(t.TempDir(), "suppressed")
			// The simulated driver keeps what it allocates, as the real one does.
			must.Do(t, os.WriteFile(suppressed, []byte("leak:libcuda.so\n"), 0o600))
			env := []string{"LSAN_OPTIONS=print_suppressions=0:suppressions=" + suppressed}
			alone := exec.Command(program)
			alone.Env = append(os.Environ(), env...)
			if out, _ := alone.CombinedOutput(); alone.ProcessState.ExitCode() != 7 {
				t.Skipf("alone it ends with %d:\n%s", alone.ProcessState.ExitCode(), out)
			}
			s := newStage(t, Options{}, GoConfig{})
			stdout, stderr, code := s.run(t, play{program, nil, env})
			expect(t, stdout, stderr, code, "")
			status := s.status().Status
			if s.counts["memset"] != fills || fills == 0 && !strings.Contains(status, "-fsanitize=leak hangs") {
				t.Errorf("%v arrived, want %d fills; CUPTI %s", s.counts, fills, status)
			}
			if fills == 0 {
				return
			}
			s = newStage(t, Options{}, GoConfig{})
			stdout, stderr, code = s.run(t, play{program, []string{"client"}, env})
			expect(t, stdout, stderr, code, "")
		})
	}
}
