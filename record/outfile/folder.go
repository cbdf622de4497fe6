package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
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
	strange := ""
	err := t.eachEarlier(file, func(_ *os.File, at string, _ uint32, ours bool) error {
		if !ours && strange == "" {
			strange = at
		}
		return nil
	})
	if err == nil && strange != "" {
		err = fmt.Errorf("the folder %s holds %s, which is not of an earlier conversion: %s", t.shown(p.name), strange, otherName)
	}
	return err
}

// eachEarlier walks through the folder that was found. ours reports whether a file or a folder in it is of an earlier
// set, of whose files one would have that name: the manifest lists it or, without one, it has the same suffix.
func (t *Target) eachEarlier(file string, do func(in *os.File, at string, kind uint32, ours bool) error) error {
	dir, err := openIn(t.folder.found, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	listed := map[string]bool{}
	if t.opts.Manifest != "" {
		if listed, err = readManifest(dir, t.opts.Manifest); err != nil {
			return err
		}
	}
	return walk(dir, "", deepest, func(in *os.File, at string, kind uint32) error {
		ours := listed[at]
		if t.opts.Manifest == "" {
			ours = kind == unix.S_IFREG && !strings.Contains(at, "/") && alike(at, file)
		}
		return do(in, at, kind, ours)
	})
}

// openIn opens a folder within another one, but not through a link.
func openIn(in *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// alike reports whether a name has the suffix of another one, compressed or not.
func alike(name, other string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), strings.TrimSuffix(suffixOf(other), ".gz"))
}

// makeFolder makes an empty folder for the files of a set.
func (t *Target) makeFolder() (*newFolder, error) {
	f := &newFolder{target: t,
		name: tracelog.PartialName(t.folder.name, fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6]))}
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

// remove removes the folder with its files.
func (f *newFolder) remove() error {
	listed := make(map[string]bool)
	for _, name := range append(f.names, f.trying) {
		list(listed, name)
	}
	dir, err := openIn(f.fd, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	err = walk(dir, "", deepest, func(in *os.File, at string, kind uint32) error {
		if !listed[at] {
			return nil
		}
		return unlink(in, at, kind)
	})
	return errors.Join(err, unix.Unlinkat(int(f.target.place.dir.Fd()), f.name, unix.AT_REMOVEDIR))
}

// unlink removes a file, or a folder that is empty.
func unlink(in *os.File, at string, kind uint32) error {
	if kind != unix.S_IFDIR {
		return unix.Unlinkat(int(in.Fd()), path.Base(at), 0)
	}
	err := unix.Unlinkat(int(in.Fd()), path.Base(at), unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
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
		var err error
		if done.Replaced {
			done.Replaced, err = f.replace(name)
		}
		if err == nil && !t.committed {
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

// replace puts the folder in the place of the one that was found there, and of no other. The two change names before
// the earlier one is removed: whoever looks, also after a crash, finds one of them whole. Where the file system cannot
// do that, as NFS, or overlayfs with a folder of a lower layer, the earlier one is removed first, and this one has no
// name yet. It returns false if there is none any more.
func (f *newFolder) replace(name string) (bool, error) {
	dir := int(f.target.place.dir.Fd())
	defer lockFolder(dir)()
	if there, err := f.isEarlier(name); !there || err != nil {
		return false, err
	}
	exchange := func() error { return f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE) }
	err := exchange()
	if isUnknown(err) || errors.Is(err, unix.EXDEV) {
		return f.removeEarlier(name)
	}
	if err != nil {
		return false, err
	}
	if _, err = f.removeEarlier(f.name); err == nil {
		f.target.committed = true
		return true, nil
	}
	if failed := exchange(); failed != nil {
		return false, failed
	}
	return false, err
}

// isEarlier reports whether the folder that was found has a name. The error is ErrTaken if something else has it, or
// says why the folder cannot be replaced.
func (f *newFolder) isEarlier(name string) (bool, error) {
	t := f.target
	var s unix.Stat_t
	switch err := unix.Fstatat(int(t.place.dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	case !t.folder.isFound(&s):
		return false, ErrTaken
	}
	return true, t.checkFolder(f.names[0])
}

// removeEarlier removes the folder that was found, with the files of an earlier set. It returns false if it is not
// there any more, and ErrTaken if something else has its name.
func (f *newFolder) removeEarlier(name string) (bool, error) {
	t := f.target
	if there, err := f.isEarlier(name); !there || err != nil {
		return false, err
	}
	err := t.eachEarlier(f.names[0], func(in *os.File, at string, kind uint32, ours bool) error {
		if !ours || at == t.opts.Manifest {
			return nil
		}
		return unlink(in, at, kind)
	})
	if err == nil && t.opts.Manifest != "" { // the last one: without it nobody replaces what is left
		if err = unix.Unlinkat(int(t.folder.found.Fd()), t.opts.Manifest, 0); errors.Is(err, unix.ENOENT) {
			err = nil // the folder was empty
		}
	}
	if err == nil { // another folder of that name stays, unless it is empty
		err = unix.Unlinkat(int(t.place.dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		err = ErrTaken
	}
	return err == nil, err
}
