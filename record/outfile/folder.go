package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A newFolder is made for a set. It has a partial name until all files are in it.
type newFolder struct {
	target *Target
	fd     *os.File
	name   string   // in the target's folder
	names  []string // of the files in it
	trying string   // the name of the last one, whose folders may be there without it
}

// findFolder finds what has the name of the folder of several files. No link is followed there: a
// folder has the same place as a single file.
func (t *Target) findFolder() error {
	p := &t.folder
	*p = place{uid: t.place.uid, dir: t.place.dir, name: t.opts.Folder(t.place.name)}
	if p.name == "." || p.name == ".." {
		return errFolder
	}
	f, s, err := p.open(int(p.dir.Fd()), p.name, unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		p.found, p.stat = f, *s
	}
	return err
}

// otherName is the remedy where something else has the name of a folder.
const otherName = "choose another name with -o"

// checkFolder says why the folder that was found cannot be replaced by one with such files.
func (t *Target) checkFolder(file string) error {
	p := &t.folder
	if !t.opts.Named || p.found == nil {
		return nil
	}
	switch {
	case p.stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a folder: %s", t.shown(p.name), otherName)
	case p.stat.Uid != p.uid:
		return fmt.Errorf("the folder %s belongs to user %d: %s", t.shown(p.name), p.stat.Uid, otherName)
	}
	dir, err := openIn(p.found, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	strange, what := "", "no trace of an earlier conversion"
	if t.opts.Manifest != "" {
		what = "not of an earlier conversion alone"
		strange, err = checkTree(dir, t.opts.Manifest)
	} else {
		strange, err = eachFile(dir, file, func(string) error { return nil })
	}
	if err == nil && strange != "" {
		err = fmt.Errorf("the folder %s holds %s, which is %s: %s", t.shown(p.name), strange, what, otherName)
	}
	return err
}

// openIn opens a folder within another one, but not through a link.
func openIn(in *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// eachFile calls a function for each file that is of the kind of another one, by its name. It returns
// the name of anything else in the folder.
func eachFile(dir *os.File, kind string, do func(name string) error) (strange string, err error) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		var s unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return "", err
		}
		if s.Mode&unix.S_IFMT != unix.S_IFREG || !alike(name, kind) {
			strange = name
		} else if err := do(name); err != nil {
			return "", err
		}
	}
	return strange, nil
}

// alike reports whether a name has the suffix of another one, compressed or not.
func alike(name, other string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), strings.TrimSuffix(suffixOf(other), ".gz"))
}

// makeFolder makes an empty folder for the files of a set.
func (t *Target) makeFolder() (*newFolder, error) {
	f := &newFolder{target: t, name: t.asideName()}
	at := int(t.place.dir.Fd())
	if err := unix.Mkdirat(at, f.name, 0o777); err != nil {
		return nil, err
	}
	var err error
	if f.fd, err = openIn(t.place.dir, f.name); err != nil {
		return nil, errors.Join(err, unix.Unlinkat(at, f.name, unix.AT_REMOVEDIR))
	}
	return f, nil
}

// asideName is a partial name for a folder.
func (t *Target) asideName() string {
	return tracelog.PartialName(t.folder.name, fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6]))
}

// remove removes the folder with its files.
func (f *newFolder) remove() (err error) {
	if f.target.opts.Manifest != "" {
		err = f.removeTree()
	} else {
		for _, name := range f.names {
			err = errors.Join(err, unix.Unlinkat(int(f.fd.Fd()), name, 0))
		}
	}
	return errors.Join(err, unix.Unlinkat(int(f.target.place.dir.Fd()), f.name, unix.AT_REMOVEDIR))
}

// commit gives the folder the name that was wanted, or if that is taken the first one with a number
// that is not. target.mu is held.
func (f *newFolder) commit() (Done, error) {
	t := f.target
	for n := t.first; n < mostNumbers; n++ {
		name := numbered(t.folder.name, n)
		done := Done{
			Path: t.shown(name), Replaced: n == 1 && t.opts.Named && t.folder.found != nil, Taken: n > 1, Files: len(f.names),
		}
		err := error(unix.ENOENT)
		if done.Replaced {
			err = f.replace(name)
		}
		if !t.committed && errors.Is(err, unix.ENOENT) { // nothing is there, or not any more
			done.Replaced = false
			err = f.give(name)
		}
		if !errors.Is(err, ErrTaken) {
			return done, err
		}
	}
	return Done{}, ErrTaken
}

// give gives the folder a name that nothing has.
func (f *newFolder) give(name string) error {
	t, dir := f.target, int(f.target.place.dir.Fd())
	err := t.rename(dir, f.name, dir, name, unix.RENAME_NOREPLACE)
	if isUnknown(err) {
		var s unix.Stat_t
		if unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return ErrTaken
		}
		err = unix.Renameat(dir, f.name, dir, name) // replaces an empty folder at most
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return ErrTaken
	}
	t.committed = err == nil
	return err
}

// replace puts the folder in the place of the one that was found there, and of no other.
func (f *newFolder) replace(name string) error {
	t, dir := f.target, int(f.target.place.dir.Fd())
	defer lockFolder(dir)()
	var s unix.Stat_t
	if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if !t.folder.isFound(&s) {
		return ErrTaken
	}
	if err := t.checkFolder(f.names[0]); err != nil {
		return err
	}
	if err := f.exchange(name); err != nil {
		return err
	}
	if err := unix.Fstatat(dir, f.name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil || !t.folder.isFound(&s) {
		return errors.Join(ErrTaken, f.exchange(name))
	}
	t.committed = true
	if err := f.clear(); err != nil {
		return fmt.Errorf("the trace is whole, but the folder that stood there is left, as %s: %w", t.shown(f.name), err)
	}
	return nil
}

// exchange makes the folder and another one change names.
func (f *newFolder) exchange(name string) error {
	dir := int(f.target.place.dir.Fd())
	err := f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE)
	if !isUnknown(err) {
		return err
	}
	aside := f.target.asideName()
	if err := unix.Renameat(dir, name, dir, aside); err != nil {
		return err
	}
	if err := unix.Renameat(dir, f.name, dir, name); err != nil {
		return errors.Join(err, unix.Renameat(dir, aside, dir, name))
	}
	return unix.Renameat(dir, aside, dir, f.name)
}

// clear removes the folder that was found, which has the partial name now, with files of an earlier
// set. Anything else in it stays.
func (f *newFolder) clear() error {
	t := f.target
	old, err := openIn(t.folder.found, ".")
	if err != nil {
		return err
	}
	defer old.Close()
	if t.opts.Manifest != "" {
		err = clearTree(old, t.opts.Manifest)
	} else {
		_, err = eachFile(old, f.names[0], func(name string) error { return unix.Unlinkat(int(old.Fd()), name, 0) })
	}
	if err != nil {
		return err
	}
	return unix.Unlinkat(int(t.place.dir.Fd()), f.name, unix.AT_REMOVEDIR)
}
