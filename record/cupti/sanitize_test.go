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
)

// sanitized builds the library with a sanitizer, once each.
var sanitized = map[string]func() (string, error){
	"address": sync.OnceValues(func() (string, error) { return buildSanitized("address") }),
	"thread":  sync.OnceValues(func() (string, error) { return buildSanitized("thread") }),
	"none":    sync.OnceValues(func() (string, error) { return buildSanitized("") }),
}

func buildSanitized(which string) (string, error) {
	dir, err := os.MkdirTemp("", "cupti-sanitized-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("make", "-s", "-C", "inject", "host", "SANITIZE="+which,
		"OUT="+filepath.Join(dir, libraryName)).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return dir, err
}

// sanitizedLibrary returns the library and the environment that it needs.
func sanitizedLibrary(t *testing.T, which string) ([]byte, []string) {
	t.Helper()
	dir, err := sanitized[which]()
	if err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadFile(filepath.Join(dir, libraryName))
	if err != nil {
		t.Fatal(err)
	}
	runtime := map[string]string{"address": "libasan.so", "thread": "libtsan.so"}[which]
	found, err := exec.Command("gcc", "-print-file-name="+runtime).Output()
	preload := strings.TrimSpace(string(found))
	if err != nil || !filepath.IsAbs(preload) {
		t.Skipf("this compiler has no %s", runtime)
	}
	return built, []string{"LD_PRELOAD=" + preload, "ASAN_OPTIONS=exitcode=55", "TSAN_OPTIONS=exitcode=55"}
}

// TestSanitized runs the same endings with the library built for a sanitizer: a
// finding changes the exit code and prints.
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
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(s.dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
