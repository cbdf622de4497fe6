package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// inFolder has several files in the folder x for the name x.json.
func inFolder(o Options) Options {
	if o.Manifest == "" {
		o.Folder = func(name string) string { return strings.TrimSuffix(name, ".json") }
	}
	return o
}

// writeSet makes files, each with its name as its text.
func writeSet(path string, o Options, how kind, names ...string) (Done, error) {
	target, err := At(path, inFolder(o))
	if err != nil {
		return Done{}, err
	}
	defer target.Close()
	if how != nameless {
		target.rename = func(from int, a string, to int, b string, flags uint) error {
			if how == simple {
				return unix.EINVAL
			}
			return unix.Renameat2(from, a, to, b, flags)
		}
	}
	set := NewSet(target)
	for _, name := range names {
		f, err := set.Create(name)
		if err == nil {
			_, err = f.WriteString(name)
		}
		if err != nil {
			return Done{}, errors.Join(err, set.Discard())
		}
	}
	if how != nameless {
		giveNames(set)
	}
	done, err := set.Commit()
	if err != nil {
		return done, errors.Join(err, set.Discard())
	}
	return done, set.Close()
}

// giveNames gives the files of a set partial names, as on a file system without nameless files.
func giveNames(s *Set) {
	for i, f := range s.files {
		_ = f.give(fmt.Sprintf("f.partial-%d", i))
	}
}

// deepListing is the content of a folder and of the folders in it.
func deepListing(t *testing.T, dir string) string {
	t.Helper()
	all := listing(t, dir)
	for field := range strings.FieldsSeq(all) {
		if name, ok := strings.CutSuffix(field, "=?"); ok {
			all = strings.Replace(all, field, name+"/["+listing(t, filepath.Join(dir, name))+"]", 1)
		}
	}
	return all
}

// TestSet makes one or several files for x.json where other files stand.
func TestSet(t *testing.T) {
	t.Parallel()
	named, one, two := Options{Named: true}, []string{"a.t.json"}, []string{"a.t.json", "b.t.json"}
	earlier := both(folder("x"), files("x/old.t.json", "x/older.t.json.gz"))
	for name, c := range map[string]struct {
		before func(dir string) error
		opts   Options
		path   string
		names  []string
		after  string // or the error
		done   Done
	}{
		"a single file":                    {nil, named, "x.json", one, "x.json=a.t.json", Done{Path: "x.json"}},
		"a single file replaces":           {file("x.json"), named, "x.json", one, "x.json=a.t.json", Done{Path: "x.json", Replaced: true}},
		"a single file, nobody named":      {file("x.json"), Options{}, "x.json", one, "x-2.json=a.t.json x.json=old", Done{Path: "x-2.json", Taken: true}},
		"a link stays":                     {both(file("y"), link("x.json", "y")), named, "x.json", one, "x.json->y y=a.t.json", Done{Path: "x.json", Replaced: true}},
		"a folder in a single file's way":  {folder("x.json"), named, "x.json", one, "a folder of that name is in the way", Done{}},
		"a folder in the way of x":         {folder("x"), named, "x", one, "a folder of that name is in the way", Done{}},
		"several files":                    {file("x.json"), named, "x.json", two, "x/[a.t.json=a.t.json b.t.json=b.t.json] x.json=old", Done{Path: "x", Files: 2}},
		"equal names":                      {nil, named, "x", []string{"a.pt.trace.json.gz", "a.pt.trace.json.gz"}, "x/[a-2.pt.trace.json.gz=a.pt.trace.json.gz a.pt.trace.json.gz=a.pt.trace.json.gz]", Done{Path: "x", Files: 2}},
		"one file in a folder":             {nil, named, "x/", one, "x/[a.t.json=a.t.json]", Done{Path: "x", Files: 1}},
		"a folder is replaced":             {earlier, named, "x.json", two, "x/[a.t.json=a.t.json b.t.json=b.t.json]", Done{Path: "x", Replaced: true, Files: 2}},
		"a folder is replaced by its name": {earlier, named, "x/", one, "x/[a.t.json=a.t.json]", Done{Path: "x", Replaced: true, Files: 1}},
		"a folder, nobody named":           {earlier, Options{}, "x.json", two, "x/[old.t.json=old older.t.json.gz=old] x-2/[a.t.json=a.t.json b.t.json=b.t.json]", Done{Path: "x-2", Taken: true, Files: 2}},
		"a folder of other files":          {both(folder("x"), file("x/notes")), named, "x.json", two, "x holds notes, which is not of an earlier conversion", Done{}},
		"a folder with a link":             {both(folder("x"), link("x/l.t.json", "/etc")), named, "x.json", two, "x holds l.t.json, which is not of an earlier conversion", Done{}},
		"a folder with a folder":           {both(folder("x"), folder("x/d.t.json")), named, "x.json", two, "x holds d.t.json, which is not of an earlier conversion", Done{}},
		"a file in a folder's way":         {file("x"), named, "x.json", two, "x is not a folder", Done{}},
		"a link in a folder's way":         {link("x", "/"), named, "x.json", two, "x is not a folder", Done{}},
		"a link to a folder":               {both(folder("y"), link("x", "y")), named, "x/", two, "x->y y/[a.t.json=a.t.json b.t.json=b.t.json]", Done{Path: "x", Replaced: true, Files: 2}},
		"the folder above":                 {nil, named, "..", two, "a folder of that name is in the way", Done{}},
		"no files":                         {nil, named, "x.json", nil, "", Done{}},
	} {
		for _, how := range kinds {
			t.Run(name+"/"+string(how), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if c.before != nil {
					must.Do(t, c.before(dir))
				}
				before := deepListing(t, dir)
				done, err := writeSet(dir+"/"+c.path, c.opts, how, c.names...)
				got := deepListing(t, dir)
				if err != nil {
					if !strings.Contains(err.Error(), c.after) || !strings.HasPrefix(err.Error(), "cannot write "+dir+"/"+c.path+": ") || got != before {
						t.Errorf("the error is %v; the folder has %s", err, got)
					}
					return
				}
				done.Path = strings.TrimPrefix(done.Path, dir+"/")
				if got != c.after || done != c.done {
					t.Errorf("the folder has %s, %+v", got, done)
				}
			})
		}
	}
}

// TestSetMeanwhile commits a folder whose name another one has got since the target was made, or whose
// earlier folder has got another file: both stay.
func TestSetMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, meanwhile func(dir string) error
		after             string
	}{
		"another folder": {nil, both(folder("x"), file("x/o.t.json")), "x/[o.t.json=old] x-2/[a.t.json= b.t.json=]"},
		"another file":   {nil, file("x"), "x=old x-2/[a.t.json= b.t.json=]"},
		"replaced":       {both(folder("x"), file("x/o.t.json")), both(func(dir string) error { return os.Rename(dir+"/x", dir+"/y") }, both(folder("x"), file("x/n.t.json"))), "x/[n.t.json=old] x-2/[a.t.json= b.t.json=] y/[o.t.json=old]"},
		"removed":        {folder("x"), func(dir string) error { return os.Remove(dir + "/x") }, "x/[a.t.json= b.t.json=]"},
		"a file more":    {folder("x"), file("x/notes"), "x holds notes"},
	} {
		for _, how := range kinds {
			dir := t.TempDir()
			if c.before != nil {
				must.Do(t, c.before(dir))
			}
			target, err := At(filepath.Join(dir, "x.json"), inFolder(Options{Named: true}))
			must.Do(t, err)
			if how == simple {
				target.rename = func(int, string, int, string, uint) error { return unix.EINVAL }
			}
			set := NewSet(target)
			for _, name := range []string{"a.t.json", "b.t.json"} {
				must.Get(set.Create(name))(t)
			}
			must.Do(t, c.meanwhile(dir))
			_, err = set.Commit()
			if err != nil {
				if !strings.Contains(err.Error(), c.after) || deepListing(t, dir) != "x/[notes=old]" {
					t.Errorf("%s, %s: %v, %s", name, how, err, deepListing(t, dir))
				}
			} else if got := deepListing(t, dir); got != c.after {
				t.Errorf("%s, %s: the folder has %s", name, how, got)
			}
			must.Do(t, set.Discard())
			target.Close()
		}
	}
}

// TestSetCrash looks at every step of names while a folder is replaced: the earlier one or the new one is there, whole.
func TestSetCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, both(folder("x"), files("x/old.t.json", "x/older.t.json"))(dir))
	target, err := At(filepath.Join(dir, "x.json"), inFolder(Options{Named: true}))
	must.Do(t, err)
	defer target.Close()
	const old, replaced = "old.t.json=old older.t.json=old", "a.t.json= b.t.json="
	steps := 0
	target.rename = func(from int, a string, to int, b string, flags uint) error {
		before := listing(t, filepath.Join(dir, "x"))
		err := unix.Renameat2(from, a, to, b, flags)
		if after := listing(t, filepath.Join(dir, "x")); before != old || after != replaced || err != nil {
			t.Errorf("from %s to %s, %v", before, after, err)
		}
		steps++
		return err
	}
	set := NewSet(target)
	for _, name := range []string{"a.t.json", "b.t.json"} {
		must.Get(set.Create(name))(t)
	}
	done, err := set.Commit()
	if got := deepListing(t, dir); err != nil || steps != 1 || !done.Replaced || got != "x/["+replaced+"]" {
		t.Errorf("%v, %d steps, %+v: %s", err, steps, done, got)
	}
	must.Do(t, set.Close())
}

// TestSetOnLayers replaces a folder of a lower layer of overlayfs, which changes names with no other.
func TestSetOnLayers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, both(folder("x"), file("x/old.t.json"))(dir))
	target, err := At(filepath.Join(dir, "x.json"), inFolder(Options{Named: true}))
	must.Do(t, err)
	defer target.Close()
	target.rename = func(from int, a string, to int, b string, flags uint) error {
		if flags == unix.RENAME_EXCHANGE {
			return unix.EXDEV
		}
		return unix.Renameat2(from, a, to, b, flags)
	}
	set := NewSet(target)
	for _, name := range []string{"a.t.json", "b.t.json"} {
		must.Get(set.Create(name))(t)
	}
	done, err := set.Commit()
	if got := deepListing(t, dir); err != nil || !done.Replaced || got != "x/[a.t.json= b.t.json=]" {
		t.Errorf("%v, %+v: %s", err, done, got)
	}
	must.Do(t, set.Close())
}

// TestSetAbandon abandons a set: nothing is left, and no further file is made.
func TestSetAbandon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := must.Get(At(filepath.Join(dir, "x.json"), inFolder(Options{Named: true})))(t)
	defer target.Close()
	set := NewSet(target)
	for _, name := range []string{"a", "b"} {
		must.Get(set.Create(name))(t)
	}
	giveNames(set)
	if abandoned, err := target.Abandon(); !abandoned || err != nil || listing(t, dir) != "" {
		t.Errorf("%t, %v: the folder has %s", abandoned, err, listing(t, dir))
	}
	if _, err := set.Create("c"); err == nil {
		t.Error("a file was made later")
	}
	if _, err := set.Commit(); err == nil || listing(t, dir) != "" {
		t.Errorf("the folder has %s, %v", listing(t, dir), err)
	}
	must.Do(t, set.Discard())
}

// plantFolder puts links to the victim's folder, and folders of the attacker, in the place of
// everything that is or will be in the folder, and moves what was there to another name.
func plantFolder(dir, victim string, round int) {
	bad := filepath.Join(dir, "bad")
	list, _ := filepath.Glob(filepath.Join(dir, "x*"))
	for i, path := range append(list, filepath.Join(dir, "x"), filepath.Join(dir, "x-2")) {
		_ = os.Rename(path, filepath.Join(dir, fmt.Sprintf("moved-%d", i)))
		_ = os.RemoveAll(bad)
		if round%2 == 0 {
			_ = os.Symlink(victim, bad)
		} else {
			_ = os.Mkdir(bad, 0o777)
			_ = os.Symlink(filepath.Join(victim, "a.t.json"), filepath.Join(bad, "a.t.json"))
		}
		_ = os.Rename(bad, path)
	}
}

// TestAttackOnFolder makes folders of files where an attacker swaps everything: the victim's folder
// keeps its files, and gets none.
func TestAttackOnFolder(t *testing.T) {
	if attacktest.Attacks(plantFolder) {
		return
	}
	must.BeRoot(t)
	for _, c := range []scene{
		{"sudo by the attacker, shared folder", attacker, 0o777 | os.ModeSticky, 0, 0},
		{"sudo by the attacker, own folder", attacker, 0o755, attacker, 0},
		{"sudo by another, shared folder", otherUser, 0o777 | os.ModeSticky, 0, otherUser},
		{"sudo by another, open folder", otherUser, 0o777, 0, otherUser},
		{"root, shared folder", 0, 0o777 | os.ModeSticky, 0, 0},
		{"root, folder of the attacker", 0, 0o755, attacker, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, victim := c.folders(t)
			must.Do(t, os.Mkdir(victim, 0o755))
			must.Do(t, file("a.t.json")(victim))
			must.Do(t, os.Chown(filepath.Join(victim, "a.t.json"), c.victim, c.victim))
			must.Do(t, os.Chown(victim, c.victim, c.victim))
			attack(t, dir, victim, func(o Options, how kind) error {
				_, err := writeSet(filepath.Join(dir, "x.json"), o, how, "a.t.json", "b.t.json")
				return err
			})
			if got := ownership(t, victim); listing(t, victim) != "a.t.json=old" || got != fmt.Sprintf("drwxr-xr-x of user %d", c.victim) {
				t.Errorf("the victim has %s and is %s", listing(t, victim), got)
			}
		})
	}
}

// TestSudoFolder makes folders under sudo: they and their files belong to the user. A folder of somebody else is not replaced.
func TestSudoFolder(t *testing.T) {
	must.BeRoot(t)
	underSudo(t, otherUser)
	for _, c := range []struct {
		name  string
		owner int
		mode  os.FileMode
	}{
		{"own", otherUser, 0o700},
		{"shared", 0, 0o777 | os.ModeSticky},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folderOf(t, c.owner, c.owner, c.mode)
			for _, how := range kinds {
				done, err := writeSet(filepath.Join(dir, "x.json"), Options{Named: true}, how, "a.t.json", "b.t.json")
				must.Do(t, err)
				for _, path := range []string{done.Path, filepath.Join(done.Path, "a.t.json"), filepath.Join(done.Path, "b.t.json")} {
					var s unix.Stat_t
					must.Do(t, unix.Lstat(path, &s))
					if s.Uid != otherUser || s.Gid != otherUser {
						t.Errorf("%s: %s belongs to %d:%d", how, path, s.Uid, s.Gid)
					}
				}
			}
			must.Do(t, os.Chown(filepath.Join(dir, "x"), attacker, attacker))
			_, err := writeSet(filepath.Join(dir, "x.json"), Options{Named: true}, nameless, "c.t.json", "d.t.json")
			if err == nil || !strings.Contains(err.Error(), "x belongs to user 65534") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
