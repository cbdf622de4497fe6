package doctor

import (
	"os"
	"regexp"

	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const checkMetrics = "metrics"

// adminOnly is the line of the driver's parameters by which it keeps the GPUs' counters for administrators.
var adminOnly = regexp.MustCompile(`(?m)^RmProfilingAdminOnly: *([0-9]+)`)

// lookAtMetrics looks whether the user may read the GPUs' counters. The sampler runs as the user who called sudo.
func (x *examination) lookAtMetrics(root bool) {
	text, err := procfs.Read(x.root+driverFolder+"/params", procfs.MaxFacts)
	if err != nil {
		return // without a driver another line says so
	}
	m := adminOnly.FindSubmatch(text)
	switch {
	case m == nil:
		x.addCheck(Check{Name: checkMetrics, Status: Note,
			Found: "GPU metrics of NVML and GPM; the driver does not say who may read the GPUs' counters (--gpu-metrics)"})
	case string(m[1]) == "0":
		x.addCheck(Check{Name: checkMetrics, Status: OK, Found: "GPU metrics, the GPUs' counters (--gpu-metrics) included"})
	case root:
		x.addCheck(Check{Name: checkMetrics, Status: OK,
			Found: "GPU metrics; the GPUs' counters (--gpu-metrics) for root alone (RmProfilingAdminOnly), which this user is"})
	default:
		x.addCheck(Check{Name: checkMetrics, Status: Note,
			Found: "GPU metrics of NVML and GPM; the driver keeps the GPUs' counters (--gpu-metrics) " +
				"for administrators (RmProfilingAdminOnly)",
			Remedy: "load the module nvidia with NVreg_RestrictProfilingToAdminUsers=0, or record as root"})
	}
}

// asRoot reports whether the sampler of GPU metrics will run as root.
func asRoot() bool { return os.Geteuid() == 0 && invoker.Find() == nil }
