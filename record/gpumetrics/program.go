package gpumetrics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

// programFile returns the sampler's program as a file that has no name and that nobody can change.
func programFile(program []byte) (*os.File, error) {
	if len(program) == 0 {
		return nil, errors.New("there is no sampler for this processor; CUDA runs on amd64 and arm64")
	}
	const name, flags = "cudatrace-gpu", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3: every such file may be a program
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, errors.New("no file in memory may be a program (sysctl vm.memfd_noexec): " + errno.Words(err))
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(program); err != nil {
		return nil, errors.Join(errors.New("the sampler's program has no room: "+errno.Words(err)), f.Close())
	}
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Folders of the driver's libraries that a linker may not know of.
var driverFolders = []string{"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"}

const libraryName = "libnvidia-ml.so.1"

// libraries are the files that the sampler loads by their names, or that these load.
var libraries = []string{
	libraryName, "libcuda.so.1", "libcupti.so.13", "libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so",
}

// environment is what the sampler gets of our environment: where libraries are. With root's own rights it
// loads libraries only from folders that nobody but root can change.
func environment(ours []string, root bool) []string {
	var folders, env []string
	for _, e := range ours {
		switch name, value, _ := strings.Cut(e, "="); {
		case name == "LD_LIBRARY_PATH":
			folders = strings.Split(value, ":")
		case strings.HasPrefix(name, "CUDASIM_"):
			env = append(env, e)
		}
	}
	var usable []string
	for _, folder := range append(folders, driverFolders...) {
		if filepath.IsAbs(folder) && (!root || ofRoot(folder)) {
			usable = append(usable, folder)
		}
	}
	return append(env, fmt.Sprintf("LD_LIBRARY_PATH=%s", strings.Join(usable, ":")))
}

// ofRoot reports whether only root can change a folder, the libraries in it, and the way to each. A folder
// without any of them is of no use.
func ofRoot(folder string, further ...string) bool {
	found := false
	for _, name := range slices.Concat(libraries, further) {
		file := filepath.Join(folder, name)
		if _, err := os.Lstat(file); err != nil {
			continue
		}
		if !rootAlone(file) {
			return false
		}
		found = true
	}
	return found && rootAlone(folder)
}

// linksMost is the most links on a path, as for the kernel.
const linksMost = 40

// rootAlone reports whether only root can change what a path leads to, now and later: each folder and each link on the
// way.
func rootAlone(path string) bool {
	at, rest := "/", steps(path)
	if !rootsOwn(at, false) {
		return false
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name) // at is free of links: ".." is the folder above
		if !rootsOwn(next, len(rest) == 0) {
			return false
		}
		target, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > linksMost || strings.HasPrefix(next, "/proc/") { // what such a link leads to is not in its text
			return false
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(steps(target), rest...)
	}
	return true
}

func steps(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// rootsOwn reports whether a path is root's, and others cannot write to it. In a folder with the sticky bit others
// replace nothing of root's: it may lie on the way.
func rootsOwn(path string, last bool) bool {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil || s.Uid != 0 {
		return false
	}
	if s.Mode&unix.S_IFMT == unix.S_IFLNK || !last && s.Mode&unix.S_ISVTX != 0 {
		return true
	}
	others := uint32(0o022)
	if s.Gid == 0 && !hasACL(path) {
		others = 0o002
	}
	return s.Mode&others == 0
}

// hasACL reports whether a path has an access control list: the bits of the group are then those of all whom it names.
func hasACL(path string) bool {
	_, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err == nil
}
