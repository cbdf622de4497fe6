package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
)

// Names of checks.
const (
	checkCUDA    = "libcuda"
	checkRuntime = "runtime"
	checkCUPTI   = "libcupti"
)

// linkerNames are the names under which a program may get libcupti from the dynamic linker.
var linkerNames = []string{"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}

// lookAtLibraries looks at libcuda, the runtime and libcupti of a program.
func (x *examination) lookAtLibraries(t *target) {
	x.lookAtCUDA(t)
	if t.path != "" {
		x.lookAtRuntime(t)
	}
	x.lookAtCUPTI(t)
}

// withPrefix is the first file whose base name begins with a prefix.
func withPrefix(files []string, prefix string) string {
	i := slices.IndexFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), prefix) })
	if i < 0 {
		return ""
	}
	return files[i]
}

// lookAtCUDA looks for the driver's library, which the runtime opens by its name.
func (x *examination) lookAtCUDA(t *target) {
	path := withPrefix(t.mapped, "libcuda.so")
	if path == "" {
		path = withPrefix(t.libraries("libcuda.so.1"), "libcuda.so")
	}
	if path == "" {
		x.addCheck(Check{Name: checkCUDA, Status: Nothing, Found: "programs find no libcuda.so.1",
			Remedy: "install the NVIDIA driver, or start the container with --gpus all; elsewhere, name its folder in " +
				"LD_LIBRARY_PATH"})
		return
	}
	c := Check{Name: checkCUDA, Status: OK, Found: path}
	real, err := filepath.EvalSymlinks(path)
	version := driverVersion.FindString(filepath.Base(real))
	if err == nil && version != "" {
		c.Found += " (" + version + ")"
	}
	switch {
	case version == "" || x.driver == "" || version == x.driver:
	case strings.Contains(real, "compat"):
		c.Status, c.Found = Note, c.Found+", a package for forward compatibility"
	default:
		c.Status = Nothing
		c.Found = fmt.Sprintf("%s is of another version than the kernel module %s: CUDA cannot start", c.Found, x.driver)
		c.Remedy = "restart the machine after an update of the driver; in a container, restart the container"
	}
	x.driver = cmp.Or(version, x.driver)
	x.addCheck(c)
}

// lookAtRuntime looks for the CUDA runtime among the files that a program maps when it starts.
func (x *examination) lookAtRuntime(t *target) {
	if path := withPrefix(t.mapped, "libcudart"); path != "" {
		x.addCheck(Check{Name: checkRuntime, Status: OK, Found: path})
		return
	}
	for _, file := range t.mapped {
		if hasRuntime(file) {
			x.addCheck(Check{Name: checkRuntime, Status: OK, Found: "linked into " + file})
			return
		}
	}
	x.addCheck(Check{
		Name: checkRuntime, Status: OK, Found: "none at the program's start; one that it opens later is found then",
	})
}

// hasRuntime reports whether functions of the runtime are linked into a file.
func hasRuntime(path string) bool {
	f, err := elfsym.OpenFile(path)
	if err != nil {
		return false
	}
	defer f.Close()
	found, err := elfsym.Find(f, func(name string) bool {
		fn := cudaapi.ByName(name)
		return fn != nil && fn.Library == cudaapi.Runtime
	})
	return err == nil && len(found) > 0
}

// lookAtCUPTI looks for the libcupti that the injected library would load.
func (x *examination) lookAtCUPTI(t *target) {
	candidates := cupti.LocateCUPTI(os.Getpid(), append(slices.Clone(t.mapped), t.search...))
	for _, path := range t.libraries(linkerNames...) {
		if name := filepath.Base(path); strings.HasPrefix(name, "libcupti.so") {
			candidates = append(candidates, cupti.Candidate{Path: path, Major: cupti.SonameMajor(name)})
		}
	}
	newest := cudaMajor(x.driver)
	var tooNew string
	for _, c := range candidates {
		if newest != 0 && c.Major > newest {
			tooNew = cmp.Or(tooNew, c.Path)
			continue
		}
		x.addCheck(Check{Name: checkCUPTI, Status: OK, Found: c.Path})
		return
	}
	x.addCheck(noCUPTI(t, tooNew, x.driver))
}

// noCUPTI says that there is no libcupti for a program.
func noCUPTI(t *target, tooNew, driver string) Check {
	c := Check{Name: checkCUPTI, Status: Less, Found: "no libcupti is found: GPU work is not recorded",
		Remedy: "install the CUDA toolkit's CUPTI (package cuda-cupti, or pip install nvidia-cuda-cupti), or set CUDA_HOME " +
			"to the toolkit"}
	switch {
	case tooNew != "":
		c.Found = fmt.Sprintf("%s is newer than the driver %s: GPU work is not recorded", tooNew, driver)
		c.Remedy = fmt.Sprintf("install CUPTI of CUDA %d", cudaMajor(driver))
	case t.path == "":
		c.Found = "no libcupti is in the usual places: GPU work is recorded only of programs that bring one, as PyTorch " +
			"does ('cudatrace doctor PROGRAM' looks beside its libraries)"
	}
	return c
}
