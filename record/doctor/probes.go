package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/openfiles"
	"github.com/cudatrace/cudatrace/record/internal/probe"
)

// Names of checks.
const (
	checkKernel    = "kernel"
	checkContainer = "container"
	checkRights    = "rights"
	checkProbes    = "probes"
)

// lookAtKernel looks at the kernel, and at the container around this process.
func (x *examination) lookAtKernel() {
	c := Check{Name: checkKernel, Status: OK, Found: "Linux " + host.KernelRelease()}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		c.Status, c.Found = Note, c.Found+", without a description of its types (BTF)"
		c.Remedy = "probes need a kernel with CONFIG_DEBUG_INFO_BTF, and /sys in the container"
	}
	x.addCheck(c)
	if kind := container(os.Getenv, exists); kind != "" {
		x.addCheck(Check{Name: checkContainer, Status: OK, Found: kind})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// container says in what kind of container this process runs, "" if no sign of one is seen.
func container(getenv func(string) string, exists func(string) bool) string {
	switch {
	case getenv("KUBERNETES_SERVICE_HOST") != "":
		return "Kubernetes"
	case exists("/.dockerenv"):
		return "Docker"
	case exists("/run/.containerenv"):
		return "Podman"
	case getenv("APPTAINER_CONTAINER") != "" || getenv("SINGULARITY_CONTAINER") != "":
		return "Apptainer"
	}
	return getenv("container") // what systemd and LXC set: "lxc", "systemd-nspawn"
}

// trialBytes is the buffer size of a prober whose only calls are those of a calibration.
const trialBytes = 1 << 20

// lookAtProbes tries whether calls can be probed: it loads the eBPF programs and probes a function of a
// child process.
func (x *examination) lookAtProbes() {
	mode, cost, err := tryProbes()
	x.addCheck(Check{Name: checkRights, Status: OK, Found: probe.Rights()})
	x.probed = err == nil
	if err == nil {
		x.addCheck(Check{
			Name: checkProbes, Status: OK, Found: fmt.Sprintf("uprobes work (mode %s); a probed call takes %s longer", mode,
				cost),
		})
		return
	}
	c := Check{
		Name: checkProbes, Status: Less, Found: err.Error(),
		Remedy: "without probes calls come from CUPTI, without arguments",
	}
	if x.opts.PID != 0 {
		c.Status = Nothing
		c.Remedy = "a running process can be recorded with probes only, unless 'cudatrace run --armed' started it"
		if cupti.LookForArmed(x.opts.PID).State != cupti.NotArmed {
			c.Status, c.Remedy = Less, "record it with --calls none: GPU work, and the calls that create it"
		}
	}
	x.addCheck(c)
}

// tryProbes says how functions are probed, and what a probed call costs.
func tryProbes() (mode, cost string, err error) {
	if err := openfiles.Room(record.FilesToProbe); err != nil {
		return "", "", errno.Plain(err)
	}
	functions, err := cudaapi.Select("default", nil, nil)
	if err != nil {
		return "", "", err
	}
	p, err := probe.Open(probe.Options{Functions: functions, BufferBytes: trialBytes})
	if err != nil {
		return "", "", err
	}
	perCall, err := p.Calibrate()
	mode = p.Mode()
	if err := errors.Join(err, p.Close()); err != nil {
		return "", "", errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return mode, figures.Duration(uint64(perCall.Nanoseconds())), nil
}
