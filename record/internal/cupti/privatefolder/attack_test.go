package privatefolder

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// swap puts links to the victim in the place of the files of every private folder, and a folder with
// such links in the place of the folder itself.
func swap(base, victim string, _ int) {
	folders, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	names := []string{LibraryName, SocketName, lockNewName, lockName}
	for _, dir := range folders {
		for _, name := range names {
			path := filepath.Join(dir, name)
			if os.Remove(path) == nil {
				_ = os.Symlink(victim, path)
			}
		}
		if os.Rename(dir, dir+".moved") == nil && os.Mkdir(dir, 0o700) == nil {
			for _, name := range names {
				_ = os.Symlink(victim, filepath.Join(dir, name))
			}
		}
	}
	moved, _ := filepath.Glob(filepath.Join(base, "*.moved"))
	for _, dir := range moved {
		_ = os.RemoveAll(dir)
	}
}

// TestAttackOnFolder makes the private folder for a user whose processes swap everything in it and
// the folder itself: no file of root's is written to, removed or given away.
func TestAttackOnFolder(t *testing.T) {
	if attacktest.Attacks(swap) {
		return
	}
	must.BeRoot(t)
	for name, mode := range map[string]os.FileMode{"shared": 0o777 | os.ModeSticky, "of the attacker": 0o700} {
		t.Run(name, func(t *testing.T) {
			top := must.Get(os.MkdirTemp("", "a"))(t)
			defer os.RemoveAll(top)
			base, victim := filepath.Join(top, "base"), filepath.Join(top, "victim")
			must.Do(t, os.Chmod(top, 0o755))
			must.Do(t, os.Mkdir(base, 0o700))
			must.Do(t, os.Chmod(base, mode))
			must.Do(t, os.WriteFile(victim, []byte("root's"), 0o600))
			if mode&os.ModeSticky == 0 {
				must.Do(t, os.Chown(base, attacktest.User, attacktest.User))
			}
			attackFolder(t, base, victim)
			info := must.Get(os.Stat(victim))(t)
			text := must.Get(os.ReadFile(victim))(t)
			if s := info.Sys().(*syscall.Stat_t); string(text) != "root's" || s.Uid != 0 || info.Mode() != 0o600 {
				t.Errorf("root's file has %d bytes, mode %v, and belongs to user %d", len(text), info.Mode(), s.Uid)
			}
		})
	}
}

// attackFolder makes and removes the folder under attack.
func attackFolder(t *testing.T, base, victim string) {
	t.Helper()
	end := attacktest.Start(t, base, victim)
	defer end()
	made := 0
	for range attacktest.Rounds(t) {
		f, err := Make([]string{base}, library, Owner{attacktest.User, attacktest.User})
		if err != nil {
			continue // the attacker can prevent a recording in a folder of its own
		}
		made++
		_ = f.Remove() // what the attacker put there stays
	}
	t.Logf("%d folders were made", made)
}
