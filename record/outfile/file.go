package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A File is a file that grows. It has a partial name, or no name at all, until it is committed.
type File struct {
	*os.File
	target *Target
	name   string // partial name in the target's folder; "" without
}

// A Done says where a file stands.
type Done struct {
	Path     string
	Replaced bool // another file stood there
	Taken    bool // another file stands at the path that was wanted
}

// ErrTaken says that another file stands at a name.
var ErrTaken = errors.New("another file has the name")

// Create makes a file that bears no name until it is committed: nothing is left of it if we are
// killed. Where the file system cannot do that, the file has a partial name.
func (t *Target) Create() (*File, error) {
	return t.create(func() (*File, error) {
		if unix.Access("/proc/self/fd", unix.X_OK) == nil {
			fd, err := unix.Openat(int(t.place.dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o666)
			if err == nil {
				return &File{File: os.NewFile(uintptr(fd), t.path), target: t}, nil
			}
			if errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
		}
		return t.partial(0o666)
	})
}

// CreatePartial makes a file that bears a partial name until it is committed.
func (t *Target) CreatePartial() (*File, error) {
	return t.create(func() (*File, error) { return t.partial(0o644) })
}

// create makes a file, in a folder that only root can change with root's rights.
func (t *Target) create(open func() (*File, error)) (f *File, err error) {
	err = t.as.Do(func() (err error) {
		f, err = open()
		return err
	})
	if t.as != nil && errors.Is(err, fs.ErrPermission) {
		if byRoot := atByRoot(t.path, t.opts, t.as); byRoot != nil {
			t.Close()
			t.as, t.owner, t.place = nil, byRoot.owner, byRoot.place
			return t.create(open)
		}
	}
	if err != nil {
		return nil, t.Failure(err)
	}
	if t.owner != nil {
		if err := f.Chown(int(t.owner.UID), int(t.owner.GID)); err != nil {
			return nil, errors.Join(t.Failure(err), f.Discard())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.file = f
	return f, nil
}

// partial makes a file with a partial name. The name has our PID in it, so that a person can tell to
// which recorder it belongs.
func (t *Target) partial(mode uint32) (*File, error) {
	tail := fmt.Sprint(os.Getpid())
	for range 10 {
		name := tracelog.PartialName(t.place.name, tail)
		fd, err := unix.Openat(int(t.place.dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err == nil {
			return &File{File: os.NewFile(uintptr(fd), t.shown(name)), target: t, name: name}, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		tail = fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6])
	}
	return nil, unix.EEXIST
}

// mostNumbers bounds the numbers of names that are tried.
const mostNumbers = 10_000

// Abandon removes the file that is being made at the target, if there is one, and keeps it from being
// committed later. It returns false if a file was committed already. Any goroutine may call it.
func (t *Target) Abandon() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.committed {
		return false, nil
	}
	t.abandoned = true
	if t.file == nil {
		return true, nil
	}
	return true, t.file.remove()
}

// Commit gives a whole file its name: the target's, or if that is taken the first one with a number
// that is not.
func (f *File) Commit() (Done, error) {
	for n := f.target.first; n < mostNumbers; n++ {
		done, err := f.CommitAs(n)
		if !errors.Is(err, ErrTaken) {
			return done, err
		}
	}
	return Done{}, f.target.Failure(ErrTaken)
}

// CommitAs gives a whole file the target's Nth name. The error is ErrTaken if another file has it.
func (f *File) CommitAs(n int) (Done, error) {
	t := f.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return Done{}, t.Failure(errors.New("it was abandoned"))
	}
	name := numbered(t.place.name, n)
	done := Done{Path: t.shown(name), Replaced: n == 1 && t.opts.Named && t.place.found != nil, Taken: n > 1}
	err := t.as.Do(func() error {
		if !done.Replaced {
			return f.give(name)
		}
		err := f.replace(name)
		if errors.Is(err, unix.ENOENT) { // somebody has removed the file meanwhile
			done.Replaced = false
			return f.give(name)
		}
		return err
	})
	if err == nil {
		t.file, t.committed = nil, true
	} else if !errors.Is(err, ErrTaken) {
		err = t.Failure(err)
	}
	return done, err
}

// give gives the file a name that no file has.
func (f *File) give(name string) error {
	dir := int(f.target.place.dir.Fd())
	var err error
	if f.name == "" {
		err = unix.Linkat(unix.AT_FDCWD, procPath(f.File), dir, name, unix.AT_SYMLINK_FOLLOW)
	} else {
		err = f.target.rename(dir, f.name, dir, name, unix.RENAME_NOREPLACE)
	}
	if f.name != "" && isUnknown(err) {
		err = f.link(dir, name)
	}
	if errors.Is(err, unix.EEXIST) {
		return ErrTaken
	}
	if err == nil {
		f.name = name
	}
	return err
}

// isUnknown says whether a file system lacks a kind of rename: NFS, for instance.
func isUnknown(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// link gives the file a name on a file system that cannot rename without replacing.
func (f *File) link(dir int, name string) error {
	err := unix.Linkat(dir, f.name, dir, name, 0)
	if err == nil {
		return unix.Unlinkat(dir, f.name, 0)
	}
	var s unix.Stat_t
	if errors.Is(err, unix.EEXIST) || unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(dir, f.name, dir, name) // no links either
}

// replace puts the file in the place of the one that was found there, and of no other: the two change
// names, which shows which one had the name.
func (f *File) replace(name string) error {
	dir, p := int(f.target.place.dir.Fd()), &f.target.place
	if f.name == "" {
		partial := tracelog.PartialName(name, fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6]))
		if err := f.give(partial); err != nil {
			return err
		}
	}
	var s unix.Stat_t
	err := f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE)
	if isUnknown(err) {
		if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if !p.isFound(&s) {
			return ErrTaken
		}
		err = unix.Renameat(dir, f.name, dir, name)
		f.name = name
		return err
	}
	if err != nil {
		return err
	}
	if err := unix.Fstatat(dir, f.name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if p.isFound(&s) {
		err = unix.Unlinkat(dir, f.name, 0)
		f.name = name
		return err
	}
	return errors.Join(ErrTaken, f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE))
}

// Discard closes the file and removes it.
func (f *File) Discard() error {
	f.target.mu.Lock()
	defer f.target.mu.Unlock()
	err := f.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, f.remove())
}

// remove removes the file's partial name. target.mu is held.
func (f *File) remove() error {
	f.target.file = nil
	if f.name == "" {
		return nil
	}
	name := f.name
	f.name = ""
	return f.target.as.Do(func() error { return unix.Unlinkat(int(f.target.place.dir.Fd()), name, 0) })
}

// IsGone says whether the file has no name any more, although it had one: somebody has removed it.
func (f *File) IsGone() bool {
	var s unix.Stat_t
	return f.name != "" && errors.Is(f.target.at(f.name, &s), unix.ENOENT)
}
