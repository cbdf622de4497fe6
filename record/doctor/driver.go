package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Names of checks.
const (
	checkModule = "driver"
	checkGPUs   = "GPUs"
)

const driverFolder = "/proc/driver/nvidia"

// The version in the name of a library of the driver has three numbers or, in older branches, two.
var driverVersion = regexp.MustCompile(`\b\d{3}\.\d{2,3}(\.\d{2})?\b`)

// lookAtModule looks at the kernel module of the driver.
func (x *examination) lookAtModule() {
	text, err := procfs.Read(x.root+driverFolder+"/version", procfs.MaxFacts)
	if err != nil {
		x.addCheck(Check{Name: checkModule, Status: Note, Found: "no NVIDIA kernel module: there is no " + driverFolder,
			Remedy: "CUDA finds a GPU here only under WSL or on Jetson; in a container, start it with --gpus all"})
		return
	}
	x.driver = metadata.DriverRelease(string(text))
	found := "NVIDIA kernel module " + cmp.Or(x.driver, "of unknown version")
	if major := cudaMajor(x.driver); major != 0 {
		found += fmt.Sprintf(", for CUDA up to %d.x", major)
	}
	x.addCheck(Check{Name: checkModule, Status: OK, Found: found})
}

// cudaMajor is the newest major release of CUDA that a driver runs, 0 if it is not known. Source: the
// table of driver versions in the release notes of CUDA. Without packages for forward compatibility.
func cudaMajor(driver string) uint32 {
	branch, _, _ := strings.Cut(driver, ".")
	switch n, _ := strconv.Atoi(branch); {
	case n >= 580:
		return 13
	case n >= 525:
		return 12
	case n >= 450:
		return 11
	}
	return 0
}

// lookAtGPUs looks at the GPUs, and whether the user may open their device files.
func (x *examination) lookAtGPUs() {
	gpus := metadata.GPUs(x.root + "/")
	if len(gpus) == 0 {
		if !x.has(checkModule, Note) {
			x.addCheck(Check{
				Name: checkGPUs, Status: Nothing, Found: "the driver has no GPU",
				Remedy: "see nvidia-smi, and the kernel's log (dmesg)",
			})
		}
		return
	}
	var models []string
	var refused error
	usable := 0
	for _, g := range gpus {
		if err := openDevice(x.root + "/dev/nvidia" + g.Minor); err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		usable++
		models = append(models, cmp.Or(g.Model, "GPU of unknown model"))
	}
	c := Check{Name: checkGPUs, Status: OK, Found: countModels(models)}
	if usable == 0 {
		c = unusable(len(gpus), refused)
	} else if visible, ok := x.lookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		c.Found += fmt.Sprintf("; CUDA_VISIBLE_DEVICES=%s", visible)
		if visible == "" || strings.HasPrefix(visible, "-1") {
			c.Status, c.Remedy = Nothing, "programs see no GPU: unset CUDA_VISIBLE_DEVICES"
		}
	}
	x.addCheck(c)
}

// lookupEnv looks up a variable of the program's environment.
func (x *examination) lookupEnv(name string) (value string, ok bool) {
	for _, e := range x.opts.Env {
		if v, found := strings.CutPrefix(e, name+"="); found {
			value, ok = v, true // the last one counts
		}
	}
	return value, ok
}

// openDevice opens a device file with the rights of the user who will run the program.
func openDevice(path string) error {
	return invoker.Find().Do(func() error {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return unix.Close(fd)
	})
}

// unusable says why no GPU can be used.
func unusable(gpus int, why error) Check {
	c := Check{
		Name: checkGPUs, Status: Nothing, Found: fmt.Sprintf("the driver has %s, and none can be used: %s",
			figures.Count(gpus, "GPU", "GPUs"), why),
	}
	var path *fs.PathError
	if errors.As(why, &path) {
		c.Found = fmt.Sprintf("the driver has %s, and %s cannot be opened: %s", figures.Count(gpus, "GPU", "GPUs"),
			path.Path, errno.Words(why))
	}
	c.Remedy = "give this user the right to the device files, or the container the devices (--gpus all)"
	return c
}

// countModels is "2 × NVIDIA H200, NVIDIA L4".
func countModels(models []string) string {
	slices.Sort(models)
	var words []string
	for len(models) > 0 {
		n := 1
		for n < len(models) && models[n] == models[0] {
			n++
		}
		word := models[0]
		if n > 1 {
			word = fmt.Sprintf("%d × %s", n, word)
		}
		words, models = append(words, word), models[n:]
	}
	return strings.Join(words, ", ")
}
