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
var libraries = []string{libraryName, "libcuda.so.1", "libcupti.so.13", "libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so"}

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

// ofRoot says whether only root can change a folder, the libraries in it, and the way to each. A folder
// without any of them is of no use.
func ofRoot(folder string, further ...string) bool {
	found := false
	for _, name := range slices.Concat(libraries, further) {
		file := filepath.Join(folder, name)
		if _, err := os.Lstat(file); err != nil {
			continue
		}
		library, err := filepath.EvalSymlinks(file)
		if err != nil || !rootsOwn(library, 0) || !wayOfRoot(library) {
			return false
		}
		found = true
	}
	folder, err := filepath.EvalSymlinks(folder)
	return found && err == nil && rootsOwn(folder, 0) && wayOfRoot(folder)
}

// wayOfRoot says whether only root can replace what leads to a path.
func wayOfRoot(path string) bool {
	for path != "/" {
		path = filepath.Dir(path)
		if !rootsOwn(path, unix.S_ISVTX) { // in a folder with that bit, others replace nothing of root's
			return false
		}
	}
	return true
}

// rootsOwn says whether a path is root's, and others may not write to it unless it has the excuse.
func rootsOwn(path string, excuse uint32) bool {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil || s.Uid != 0 {
		return false
	}
	others := uint32(0o022)
	if s.Gid == 0 {
		others = 0o002
	}
	return s.Mode&others == 0 || s.Mode&excuse != 0
}
