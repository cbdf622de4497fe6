package cupti

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
)

// sanitized builds the library with a sanitizer.
var sanitized = map[string]func() (string, error){
	"address": buildOnce("address", "-C", "inject", "host", "SANITIZE=address"),
	"thread":  buildOnce("thread", "-C", "inject", "host", "SANITIZE=thread"),
}

// sanitizedLibrary returns the library and the environment that it needs.
func sanitizedLibrary(t *testing.T, which string) ([]byte, []string) {
	t.Helper()
	dir, err := sanitized[which]()
	if err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile(filepath.Join(dir, privatefolder.LibraryName))
	if err != nil {
		t.Fatal(err)
	}
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

// TestValgrind looks for reads of what was never written, and for leaks at exit.
func TestValgrind(t *testing.T) {
	t.Parallel()
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skip("there is no valgrind")
	}
	dir, err := fake()
	if err != nil {
		t.Fatal(err)
	}
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
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
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
			if err := os.WriteFile(suppressed, []byte("leak:libcuda.so\n"), 0o600); err != nil {
				t.Fatal(err)
			}
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
