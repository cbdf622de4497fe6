package cupti

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	s, err := Listen(Options{Sink: nowhere{}, bases: []string{"", "relative", "/proc", "/nowhere", t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	got, err := os.ReadFile(filepath.Join(s.dir, libraryName))
	if err != nil || !slices.Equal(got, library) {
		t.Errorf("the library has %d bytes, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestNoFolder(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		base, why string
		owner     Owner
	}{
		{open, "is not safe: other users can replace what is in " + open, Owner{}},
		{"relative", "is not an absolute path", Owner{}},
		{"/nowhere", "no such file", Owner{}},
		{long, "too long a path for a socket", Owner{}},
		{closed, "cannot be entered by user 65534", Owner{65534, 65534}},
	}
	for _, test := range tests {
		_, err := makeFolder([]string{test.base}, library, test.owner)
		if err == nil || !strings.Contains(err.Error(), test.why) || !strings.Contains(err.Error(), "set TMPDIR") {
			t.Errorf("%s: got %v, want %q and the remedy", test.base, err, test.why)
		}
	}
	if left, err := os.ReadDir(long); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFullMountIsSkipped has no room for the library in the first folder, as in a full /dev/shm.
func TestFullMountIsSkipped(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("a mount needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(full, 0); err != nil {
			t.Error(err)
		}
	}()
	f, err := makeFolder([]string{full, t.TempDir()}, library, Owner{})
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(f.path) == full {
		t.Errorf("the folder is %s", f.path)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(full); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	_, err = makeFolder([]string{full}, library, Owner{})
	if err == nil || !strings.Contains(err.Error(), full) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
}

func TestNoexecMountIsSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		t.Skipf("a mount needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if err := usable(dir, Owner{}); err == nil || err.Error() != "is mounted noexec" {
		t.Errorf("got %v", err)
	}
}

// TestFullFolderIsSkipped makes the private folder elsewhere when there is no room for the library.
func TestFullFolderIsSkipped(t *testing.T) {
	t.Parallel()
	full, roomy := t.TempDir(), t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("a mount needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(full, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s, err := Listen(Options{Sink: nowhere{}, bases: []string{full, roomy}})
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(s.dir) != roomy {
		t.Errorf("the folder is %s", s.dir)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(full); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	s := &Server{dir: "/tmp/x"}
	got := s.Environ([]string{"A=b", InjectionVar + "=/other.so", NVTXVar + "=/n.so", InjectionVar + "_NOT=1"})
	want := []string{"A=b", InjectionVar + "_NOT=1",
		InjectionVar + "=/tmp/x/libcudatrace.so", NVTXVar + "=/tmp/x/libcudatrace.so"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"": "", InjectionVar + "=": "", "CUDA_INJECTION64_PATHS=/x": "",
		InjectionVar + "=/nsys.so": InjectionVar + "=/nsys.so", NVTXVar + "=/n.so": NVTXVar + "=/n.so",
		NVTXVar + "=/usr/lib/libcupti.so.13": "", InjectionVar + "=/usr/lib/libcupti.so.13": InjectionVar + "=/usr/lib/libcupti.so.13",
	} {
		if got := Conflict([]string{"A=b", env}); got != want {
			t.Errorf("%q: got %q", env, got)
		}
	}
}
