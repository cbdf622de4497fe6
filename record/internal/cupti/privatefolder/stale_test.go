package privatefolder

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// abandoned makes a folder as a killed recorder leaves it.
func abandoned(t *testing.T, base, name string, files ...string) string {
	t.Helper()
	dir := filepath.Join(base, folderPrefix+name)
	must.Do(t, os.Mkdir(dir, 0o700))
	for _, f := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600))
	}
	return dir
}

func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	must.Do(t, os.Chtimes(dir, then, then))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestStaleFolders(t *testing.T) {
	t.Parallel()
	base, outside := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, LibraryName)
	must.Do(t, os.WriteFile(victim, nil, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(outside, lockName), nil, 0o600))
	all := []string{SocketName, LibraryName, lockName}
	link := func(name, target string) string {
		must.Do(t, os.Symlink(target, filepath.Join(base, folderPrefix+name)))
		return filepath.Join(base, folderPrefix+name)
	}
	inside := func(dir, name, target string) string {
		must.Do(t, os.Symlink(target, filepath.Join(dir, name)))
		return dir
	}
	fifo := abandoned(t, base, "fifo", LibraryName)
	must.Do(t, unix.Mkfifo(filepath.Join(fifo, lockName), 0o600))
	open := abandoned(t, base, "open", all...)
	must.Do(t, os.Chmod(open, 0o777))
	early := abandoned(t, base, "early", lockNewName)
	age(t, early, 2*staleAge)
	empty := abandoned(t, base, "empty")
	age(t, empty, 2*staleAge)
	old := abandoned(t, base, "old", LibraryName)
	age(t, old, 2*staleAge)
	foreign := abandoned(t, base, "foreign", all...)
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(foreign, 4711, 4711))
	}
	tests := []struct {
		name, path string
		removed    bool
	}{
		{"killed", abandoned(t, base, "killed", all...), true},
		{"killed-early", abandoned(t, base, "killed-early", lockName), true},
		{"link-as-library", inside(abandoned(t, base, "inner", SocketName, lockName), LibraryName, victim), true},
		{"empty-and-old", empty, true},
		{"killed-while-marking", early, true},
		{"just-made", abandoned(t, base, "new"), false},
		{"unmarked-with-files", old, false},
		{"more-in-it", abandoned(t, base, "more", append(all, "mine")...), false},
		{"link-to-folder", link("link", outside), false},
		{"link-as-lock", inside(abandoned(t, base, "outer", LibraryName), lockName, victim), false},
		{"fifo-as-lock", fifo, false},
		{"open-to-others", open, false},
		{"of-another-user", foreign, os.Geteuid() != 0},
		{"other-name", filepath.Dir(victim), false},
	}
	removeStale(base, os.Geteuid())
	removeStale(filepath.Join(base, "nowhere"), os.Geteuid())
	for _, test := range tests {
		if exists(test.path) == test.removed {
			t.Errorf("%s: removed is %v", test.name, !test.removed)
		}
	}
	if !exists(victim) || !exists(filepath.Join(base, folderPrefix+"more", "mine")) {
		t.Error("a file that is none of ours is gone")
	}
}

// TestStaleFoldersInUse starts recordings side by side: none removes another's folder.
func TestStaleFoldersInUse(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				f, err := Make([]string{base}, library, self())
				if err != nil {
					t.Error(err)
					return
				}
				if !exists(filepath.Join(f.Path, LibraryName)) || !exists(filepath.Join(f.Path, SocketName)) {
					t.Errorf("%s was emptied", f.Path)
				}
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(base); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestKilledRecorder kills a recorder; the next one removes what it left.
func TestKilledRecorder(t *testing.T) {
	t.Parallel()
	if base := os.Getenv("FOLDER_TEST_RECORD_IN"); base != "" {
		f := must.Get(Make([]string{base}, library, self()))(t)
		runtime.GC() // a folder that nobody holds is closed with its lock
		runtime.GC()
		os.Stdout.WriteString("ready\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(f)
		return
	}
	base := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledRecorder$")
	cmd.Env = append(os.Environ(), "FOLDER_TEST_RECORD_IN="+base)
	input, output := pipetest.Start(t, cmd)
	defer input.Close()
	said, err := bufio.NewReader(output).ReadString('\n')
	if said != "ready\n" {
		t.Fatalf("the recorder said %q, %v", said, err)
	}
	removeStale(base, os.Geteuid())
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 || !exists(filepath.Join(base, left[0].Name(), LibraryName)) {
		t.Errorf("a living recorder has %v, %v", left, err)
	}
	cmd.Process.Kill()
	_ = cmd.Wait()
	removeStale(base, os.Geteuid())
	if left, err := os.ReadDir(base); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
