package outfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// Users of the tests: the attacker, and another one.
const (
	attacker  = attacktest.User
	otherUser = 65533
)

// plant puts links to the victim, and worse, in the place of everything that is or will be in the
// folder.
func plant(dir, victim string, round int) {
	bad := filepath.Join(dir, "bad")
	list, _ := filepath.Glob(filepath.Join(dir, "run*"))
	for _, path := range append(list, filepath.Join(dir, "run.pftrace"), filepath.Join(dir, "run-2.pftrace")) {
		_ = os.Remove(bad)
		switch round % 4 {
		case 0, 1:
			_ = os.Symlink(victim, bad)
		case 2:
			_ = unix.Mkfifo(bad, 0o666)
		case 3:
			_ = os.Symlink("/dev/full", bad)
		}
		_ = os.Rename(bad, path)
	}
}

// A scene is a folder where the recorder works, possibly for a user who called sudo, and a victim
// beside it.
type scene struct {
	name    string
	invoker int // 0: none
	mode    os.FileMode
	folder  int // its owner
	victim  int // its owner
}

// folders makes the folder of a scene, and a name for the victim beside it.
func (s *scene) folders(t *testing.T) (dir, victim string) {
	t.Helper()
	dir = folderOf(t, s.folder, s.folder, s.mode)
	if s.invoker > 0 {
		underSudo(t, s.invoker)
	}
	return dir, filepath.Join(filepath.Dir(dir), "victim")
}

// attack writes again and again into a folder under attack: with a name that somebody gave and
// without, in each way.
func attack(t *testing.T, dir, victim string, write func(o Options, how kind) error) {
	t.Helper()
	end := attacktest.Start(t, dir, victim)
	made := 0
	for i := range attacktest.Rounds(t) {
		if write(Options{Named: i%2 == 0}, kinds[i/2%len(kinds)]) == nil {
			made++
		}
	}
	end()
	t.Logf("%d were made", made)
}

// ownership is the mode and the owner of a file.
func ownership(t *testing.T, path string) string {
	t.Helper()
	info := must.Get(os.Lstat(path))(t)
	return fmt.Sprintf("%v of user %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
}

// TestAttackOnOutput makes files where an attacker swaps everything: no other file of root's or of the
// user's changes, nothing is given away, and no pipe or device is opened.
func TestAttackOnOutput(t *testing.T) {
	if attacktest.Attacks(plant) {
		return
	}
	must.BeRoot(t)
	shared := 0o777 | os.ModeSticky
	for _, c := range []scene{
		{"sudo by the attacker, shared folder", attacker, shared, 0, 0},
		{"sudo by the attacker, own folder", attacker, 0o755, attacker, 0},
		{"sudo by another, shared folder", otherUser, shared, 0, otherUser},
		{"root, shared folder", 0, shared, 0, 0},
		{"root, folder of the attacker", 0, 0o755, attacker, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, victim := c.folders(t)
			must.Do(t, os.WriteFile(victim, []byte("precious"), 0o600))
			must.Do(t, os.Chown(victim, c.victim, c.victim))
			attack(t, dir, victim, func(o Options, how kind) error {
				_, err := write(filepath.Join(dir, "run.pftrace"), "trace", o, how)
				return err
			})
			text := must.Get(os.ReadFile(victim))(t)
			if got := ownership(t, victim); string(text) != "precious" || got != fmt.Sprintf("-rw------- of user %d", c.victim) {
				t.Errorf("the victim has %q and is %s", text, got)
			}
		})
	}
}

// openFolder makes a folder that every user can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	top := must.Get(os.MkdirTemp("", "outfile-test-"))(t)
	t.Cleanup(func() { os.RemoveAll(top) })
	must.Do(t, os.Chmod(top, 0o755))
	return top
}

// folderOf makes a folder of a user in one that every user can enter.
func folderOf(t *testing.T, owner, group int, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(openFolder(t), "out")
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Do(t, os.Chown(dir, owner, group))
	must.Do(t, os.Chmod(dir, mode))
	return dir
}

// underSudo makes a user the one who called sudo.
func underSudo(t *testing.T, user int) {
	t.Helper()
	t.Setenv("SUDO_UID", fmt.Sprint(user))
	t.Setenv("SUDO_GID", fmt.Sprint(user))
}

// TestSudo makes files in several folders under sudo: they belong to the user, whose rights decide. What is there already is
// replaced where that user may, and stays as it is elsewhere.
func TestSudo(t *testing.T) {
	must.BeRoot(t)
	underSudo(t, otherUser)
	for _, c := range []struct {
		name         string
		owner, group int
		mode         os.FileMode
		allowed      bool
	}{
		{"own", otherUser, otherUser, 0o700, true},
		{"shared", 0, 0, 0o777 | os.ModeSticky, true},
		{"of the group", 0, otherUser, 0o770, true},
		{"root's", 0, 0, 0o755, false},
		{"closed, root's", 0, 0, 0o700, false},
		{"of another user", attacker, attacker, 0o755, false},
		{"closed, of another user", attacker, attacker, 0o700, false},
		{"of another group", 0, attacker, 0o775, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folderOf(t, c.owner, c.group, c.mode)
			for _, how := range kinds {
				path := filepath.Join(dir, "a "+string(how)[:7])
				must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
				must.Do(t, os.Chown(path, c.owner, c.group))
				before := ownership(t, path)
				done, err := write(path, "new", Options{Named: true}, how)
				if c.mode&os.ModeSticky != 0 {
					if text, readErr := os.ReadFile(path); err == nil || readErr != nil || string(text) != "old" || ownership(t, path) != before {
						t.Errorf("a file of root's in a shared folder: %q, %s, %v", text, ownership(t, path), err)
					}
					done, err = write(path+"'", "new", Options{Named: true}, how)
				}
				if !c.allowed {
					if text, readErr := os.ReadFile(path); readErr != nil || string(text) != "old" || ownership(t, path) != before {
						t.Errorf("the file has %q and is %s", text, ownership(t, path))
					}

					if err == nil || !strings.Contains(err.Error(), "user 65533, who called sudo, has no permission in folder "+dir) {
						t.Errorf("the error is %v", err)
					}
					continue
				}
				must.Do(t, err)
				var s unix.Stat_t
				must.Do(t, unix.Lstat(done.Path, &s))
				if s.Uid != otherUser || s.Gid != otherUser {
					t.Errorf("the file belongs to %d:%d", s.Uid, s.Gid)
				}
			}
		})
	}
	var fsuid int
	fsuid, _ = unix.SetfsuidRetUid(-1)
	if fsuid != 0 {
		t.Errorf("a thread keeps the rights of user %d", fsuid)
	}
}

// TestForeignLinks follows links of the user and of root, and nobody else's.
func TestForeignLinks(t *testing.T) {
	must.BeRoot(t)
	underSudo(t, otherUser)
	for owner, follows := range map[int]bool{0: true, otherUser: true, attacker: false} {
		top := openFolder(t)
		real := filepath.Join(top, "real")
		shared := filepath.Join(top, "shared")
		must.Do(t, os.Mkdir(real, 0o755))
		must.Do(t, os.Chown(real, otherUser, otherUser))
		must.Do(t, os.Mkdir(shared, 0o755))
		must.Do(t, os.Chmod(shared, 0o777|os.ModeSticky))
		must.Do(t, os.Symlink(real, filepath.Join(shared, "folder")))
		must.Do(t, os.Lchown(filepath.Join(shared, "folder"), owner, owner))
		must.Do(t, os.WriteFile(filepath.Join(real, "there"), nil, 0o600))
		must.Do(t, os.Chown(filepath.Join(real, "there"), otherUser, otherUser))
		must.Do(t, os.Symlink(filepath.Join(real, "there"), filepath.Join(shared, "a")))
		must.Do(t, os.Lchown(filepath.Join(shared, "a"), owner, owner))
		for _, path := range []string{filepath.Join(shared, "folder", "b"), filepath.Join(shared, "a")} {
			_, err := write(path, "new", Options{Named: true}, nameless)
			if follows && err != nil || !follows && (err == nil || !strings.Contains(err.Error(), "a symbolic link of user 65534 is in the way")) {
				t.Errorf("a link of user %d, %s: %v", owner, path, err)
			}
		}
	}
}
