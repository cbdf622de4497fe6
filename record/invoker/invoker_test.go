package invoker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// A function runs on a thread with the invoker's rights to files and no capability, which ends with it: no other thread has
// these rights then.
func TestDo(t *testing.T) {
	must.BeRoot(t)
	dir := t.TempDir()
	secret, theirs := filepath.Join(dir, "secret"), filepath.Join(dir, "folder")
	must.Do(t, errors.Join(os.WriteFile(secret, nil, 0o600), os.Mkdir(theirs, 0o700), os.Chmod(theirs, 0o770), os.Chown(theirs, 0, 4711)))
	for path := dir; path != os.TempDir(); path = filepath.Dir(path) {
		must.Do(t, os.Chmod(path, 0o755))
	}
	in := &Invoker{UID: 65534, GID: 65534, groups: []uint32{4711}}
	var tid int
	var status []byte
	must.Do(t, in.Do(func() (err error) {
		tid = unix.Gettid()
		if status, err = os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", tid)); err != nil {
			return err
		}
		if _, err := os.Open(secret); !errors.Is(err, os.ErrPermission) {
			t.Errorf("root's file: %v", err)
		}
		if err := os.Chown(secret, 65534, 65534); !errors.Is(err, os.ErrPermission) {
			t.Errorf("root's file changes hands: %v", err)
		}
		return os.WriteFile(filepath.Join(theirs, "new"), nil, 0o600)
	}))
	for _, line := range []string{"Uid:\t0\t0\t0\t65534", "Gid:\t0\t0\t0\t65534", "Groups:\t4711 65534 ", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"} {
		if !strings.Contains(string(status), "\n"+line+"\n") {
			t.Errorf("the thread lacks %q:\n%s", line, status)
		}
	}
	var s unix.Stat_t
	if err := unix.Stat(filepath.Join(theirs, "new"), &s); err != nil || s.Uid != 65534 || s.Gid != 65534 {
		t.Errorf("the file belongs to %d:%d, %v", s.Uid, s.Gid, err)
	}
	for { // until the thread has ended
		own, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", tid))
		if err != nil {
			break
		}
		if strings.Contains(string(own), "\nUid:\t0\t0\t0\t0\n") {
			t.Fatal("the thread lives on, with our rights again")
		}
	}
	for range 200 {
		must.Do(t, in.Do(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("the function runs on the first thread, which does not end with it")
			}
			return nil
		}))
	}
	begun := time.Now()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		for { // a thread with other rights ends: the last one may be about to
			text, err := os.ReadFile(task)
			if err != nil || strings.Contains(string(text), "\nUid:\t0\t0\t0\t0\n") {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("another thread has other rights:\n%s", text)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if in := (*Invoker)(nil); in.Do(func() error { return os.WriteFile(filepath.Join(dir, "ours"), nil, 0o600) }) != nil || in.User() != 0 {
		t.Error("without an invoker the rights are not our own")
	}
}
