package outfile

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

// A place is a name in an open folder, with the file of that name.
type place struct {
	uid      uint32 // with whose rights the place is found
	dir      *os.File
	name     string
	found    *os.File    // what has the name, open without access to its content; nil for nothing
	stat     unix.Stat_t // of found
	followed bool        // the path's last part is a link, which leads here
	direct   bool        // the path is one of an open file: /dev/stdout
	opened   []*os.File
}

// maxLinks is the most links on a path, as in the kernel.
const maxLinks = 40

// procPath is a path of the file that a descriptor stands for.
func procPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// find goes along a path, part by part. It follows a link only if nobody else can have put it there
// to lead us astray. A link to nothing is itself what is found, and so is any link at the path's end
// unless through is set.
func (p *place) find(path string, uid uint32, through bool) error {
	p.uid = uid
	defer p.keep()
	if err := p.enter(unix.AT_FDCWD, begin(path)); err != nil {
		return err
	}
	parts := split(path)
	var link place // the path's last part
	for links := 0; ; {
		last := len(parts) == 1
		f, s, err := p.open(int(p.dir.Fd()), parts[0], unix.O_NOFOLLOW)
		if err == nil && isMagic(f, s) {
			p.direct = last
			f, s, err = p.open(int(p.dir.Fd()), parts[0], 0)
		}
		switch {
		case last && errors.Is(err, unix.ENOENT):
			if p.followed {
				p.dir, p.name, p.found, p.stat, p.followed = link.dir, link.name, link.found, link.stat, false
			} else {
				p.name = parts[0]
			}
			return nil
		case err != nil:
			return err
		case s.Mode&unix.S_IFMT == unix.S_IFLNK && (through || !last):
			if links++; links > maxLinks {
				return unix.ELOOP
			}
			if last && !p.followed {
				link = place{dir: p.dir, name: parts[0], found: f, stat: *s}
				p.followed = true
			}
			to, err := p.follow(f, s, last)
			if err != nil {
				return err
			}
			parts = append(to, parts[1:]...)
			continue
		case last:
			p.name, p.found, p.stat = parts[0], f, *s
			return nil
		}
		p.dir, parts = f, parts[1:]
	}
}

// begin is the folder where a path begins.
func begin(path string) string {
	if strings.HasPrefix(path, "/") {
		return "/"
	}
	return "."
}

// split returns the parts of a path. The last one is "." for a path that ends in a slash.
func split(path string) (parts []string) {
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 || strings.HasSuffix(path, "/") {
		parts = append(parts, ".")
	}
	return parts
}

// open opens a name without access to its content.
func (p *place) open(dir int, name string, flags int) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	p.opened = append(p.opened, f)
	var s unix.Stat_t
	return f, &s, unix.Fstat(fd, &s)
}

// enter goes into a folder.
func (p *place) enter(dir int, name string) error {
	f, _, err := p.open(dir, name, unix.O_DIRECTORY)
	p.dir = f
	return err
}

// follow returns the parts of the path to which a link leads. It goes to the folder where that path
// begins.
func (p *place) follow(f *os.File, s *unix.Stat_t, last bool) ([]string, error) {
	if !p.trusts(s, last) {
		return nil, foreignLink(s.Uid)
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", text)
	if err != nil {
		return nil, err
	}
	to := string(text[:n])
	if begin(to) == "/" {
		err = p.enter(unix.AT_FDCWD, "/")
	}
	return split(to), err
}

// isMagic reports whether a file is a link of procfs, which the kernel alone can follow.
func isMagic(f *os.File, s *unix.Stat_t) bool {
	var fs unix.Statfs_t
	return s.Mode&unix.S_IFMT == unix.S_IFLNK && unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}

// trusts reports whether a link may be followed. At the path's end it must be the user's own or root's:
// a file is written where it leads. Before, an ordinary user may pass the links of others, but not
// those in a folder that everybody shares.
func (p *place) trusts(link *unix.Stat_t, last bool) bool {
	if link.Uid == p.uid || link.Uid == 0 {
		return true
	}
	var dir unix.Stat_t
	if last || p.uid == 0 || unix.Fstat(int(p.dir.Fd()), &dir) != nil {
		return false
	}
	return !isShared(&dir)
}

// A foreignLink is a link of another user, which is not followed.
type foreignLink uint32

func (l foreignLink) Error() string {
	return fmt.Sprintf("a symbolic link of user %d is in the way; %s", uint32(l), errno.OtherPlace)
}

// keep lets go of what was passed on the way.
func (p *place) keep() {
	kept := p.opened[:0]
	for _, f := range p.opened {
		if f == p.dir || f == p.found {
			kept = append(kept, f)
		} else {
			f.Close()
		}
	}
	p.opened = kept
}

// close lets go of all that is open.
func (p *place) close() {
	for _, f := range p.opened {
		f.Close()
	}
}

// isFound reports whether a file is the one that was found.
func (p *place) isFound(s *unix.Stat_t) bool {
	return p.found != nil && s.Dev == p.stat.Dev && s.Ino == p.stat.Ino
}

// trustSpecial refuses a pipe of somebody else in a folder that everybody shares.
func (p *place) trustSpecial() error {
	var dir unix.Stat_t
	if err := unix.Fstat(int(p.dir.Fd()), &dir); err != nil {
		return err
	}
	if isShared(&dir) && p.stat.Uid != p.uid && p.stat.Uid != 0 {
		return fmt.Errorf("it is not a regular file, and belongs to user %d", p.stat.Uid)
	}
	return nil
}

// isShared reports whether everybody can put files into a folder and none can remove those of others.
func isShared(dir *unix.Stat_t) bool { return dir.Mode&unix.S_ISVTX != 0 && dir.Mode&0o002 != 0 }
