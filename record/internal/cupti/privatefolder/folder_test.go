package privatefolder

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// library stands for the injected library: it is larger than the folders that are too small for it.
var library = bytes.Repeat([]byte("library "), 8<<10)

// self is the user who runs the test.
func self() Owner { return Owner{os.Geteuid(), os.Getegid()} }

func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	f := must.Get(Make([]string{"", "relative", "/proc", "/nowhere", t.TempDir()}, library, self()))(t)
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	got, err := os.ReadFile(filepath.Join(f.Path, LibraryName))
	if err != nil || !slices.Equal(got, library) {
		t.Errorf("the library has %d bytes, %v", len(got), err)
	}
	conn, err := net.Dial("unix", filepath.Join(f.Path, SocketName))
	if err != nil {
		t.Errorf("the socket: %v", err)
	} else {
		conn.Close()
	}
	if err := f.CloseSocket(); err != nil {
		t.Error(err)
	}
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.Path); !os.IsNotExist(err) {
		t.Errorf("after Remove: %v", err)
	}
}

func TestNoFolder(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	must.Do(t, os.Mkdir(long, 0o700))
	closed := filepath.Join(t.TempDir(), "closed")
	must.Do(t, os.Mkdir(closed, 0o700))
	open := filepath.Join(t.TempDir(), "open")
	must.Do(t, errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)))
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
		_, err := Make([]string{test.base}, library, test.owner)
		if err == nil || !strings.Contains(err.Error(), test.why) || !strings.Contains(err.Error(), "set TMPDIR") {
			t.Errorf("%s: got %v, want %q and the remedy", test.base, err, test.why)
		}
	}
	if left, err := os.ReadDir(long); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFullMountIsSkipped has no room for the library, or for half of it, in the first folder, as in a
// full /dev/shm.
func TestFullMountIsSkipped(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"size=8k", "size=16k"} {
		full, roomy := mounted(t, 0, size), t.TempDir()
		f, err := Make([]string{full, roomy}, library, Owner{})
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(f.Path) != roomy {
			t.Errorf("%s: the folder is %s", size, f.Path)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(full); err != nil || len(left) != 0 {
			t.Errorf("%s: left behind: %v, %v", size, left, err)
		}
		_, err = Make([]string{full}, library, Owner{})
		if err == nil || !strings.Contains(err.Error(), full) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: error %v", size, err)
		}
	}
}

func TestNoexecMountIsSkipped(t *testing.T) {
	t.Parallel()
	if err := usable(mounted(t, unix.MS_NOEXEC, ""), Owner{}); err == nil || err.Error() != "is mounted noexec" {
		t.Errorf("got %v", err)
	}
}

// mounted is a folder with a file system of its own.
func mounted(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("a mount needs root: %v", err)
	}
	t.Cleanup(func() { must.Do(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}
