package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// nvml puts the simulated libnvidia-ml into a folder that only its owner can change, as root's sampler wants it,
// and returns the variable by which it is found.
func nvml(t *testing.T) string {
	t.Helper()
	const name = "libnvidia-ml.so.1"
	library := must.Get(os.ReadFile(filepath.Join(simStack, "nvml", name)))(t)
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, name), library, 0o755))
	return "LD_LIBRARY_PATH=" + folder
}

// pmStack puts the simulated libraries of NVML, CUDA and CUPTI into such a folder.
func pmStack(t *testing.T) string {
	t.Helper()
	variable := nvml(t)
	for _, name := range []string{"libcuda.so.1", "libcupti.so.13"} {
		library, err := os.ReadFile(filepath.Join(simStack, "lib", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(strings.TrimPrefix(variable, "LD_LIBRARY_PATH="), name), library, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return variable
}

// roomyBuffer gives the hardware's buffer room for all samples, however late a busy machine decodes them.
const roomyBuffer = "CUDASIM_PM_BUFFER=1000000000000"

// A sampledSet is a metric set with samples in a log.
type sampledSet struct {
	source metric.Source
	uuid   string
	device uint32
}

// sampled returns the metric sets that have samples in a log, which may still grow.
func (b *background) sampled(t *testing.T) (sampled []sampledSet) {
	t.Helper()
	logs, err := filepath.Glob(b.base + ".cudatrace*")
	if err != nil || len(logs) != 1 {
		return nil
	}
	log, err := os.ReadFile(logs[0])
	if err != nil {
		return nil // it has just got its name
	}
	r, err := tracelog.NewReader(bytes.NewReader(log), int64(len(log)), logs[0])
	if err != nil {
		return nil // its first block is on the way
	}
	var sets metriclog.Sets
	seen := map[uint32]bool{}
	for r.Next() {
		sets.Take(r.Block())
		for i := range r.Block().N {
			if r.Block().Kind == tracelog.KindSample {
				var s tracelog.Sample
				s.Read(r.Block(), i)
				seen[s.Set] = true
			}
		}
	}
	for _, set := range sets.All() {
		if seen[set.ID] {
			sampled = append(sampled, sampledSet{metric.Source(set.Source), set.UUID, set.Device})
		}
	}
	return sampled
}

// count says how many sets have a source.
func count(sets []sampledSet, source metric.Source) (n int) {
	for _, s := range sets {
		if s.source == source {
			n++
		}
	}
	return n
}

// TestGPUMetrics samples the GPU that a program uses, under the UUID that CUDA gives it, and not the other one.
func TestGPUMetrics(t *testing.T) {
	t.Parallel()
	b := startRecorder(t, []string{nvml(t), "CUDASIM_DEVICES=2"}, "--flush-interval", "50ms", sim("longrun"), long)
	b.until(t, func() bool {
		s := b.sampled(t)
		return count(s, metric.GPM) > 0 && count(s, metric.NVML) > 0 && count(s, metric.Host) > 0
	})
	b.endProgram(t)
	if code := b.end(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, contents(t, b.stderr))
	}
	for _, set := range b.sampled(t) {
		if set.source != metric.Host && (set.device != 0 || set.uuid != "6375646173696d2d6465766963652d00") {
			t.Errorf("a GPU that is not used has a set: %v", set)
		}
	}
	b.read(t, b.base+".cudatrace")
	if others := lostWork(&b.Summary) - b.Lost[tracelog.LostGPUMetrics]; b.Kernels == 0 || b.Unmatched > 0 || others > 0 {
		t.Errorf("%d kernels, %d unmatched, lost %v", b.Kernels, b.Unmatched, b.Lost)
	}
}

// TestGPUMetricsAttach finds the GPU of a running process in NVML's list, whose counters are sampled, too, and samples
// all GPUs on demand.
func TestGPUMetricsAttach(t *testing.T) {
	t.Parallel()
	program := startLongrun(t, long, "-i", "100")
	for _, c := range []struct {
		env      []string
		options  []string
		gpus, pm int
	}{
		{[]string{pmStack(t), roomyBuffer, fmt.Sprintf("CUDASIM_NVML_PID=%d", program.Pid)}, []string{"--gpu-metrics"}, 1, 1},
		{[]string{nvml(t), "CUDASIM_DEVICES=2"}, []string{"--gpu-metrics-devices", "all"}, 2, 0},
	} {
		args := slices.Concat(c.options, []string{"--flush-interval", "50ms", "-p", fmt.Sprint(program.Pid)})
		b := startRecorder(t, c.env, args...)
		b.until(t, func() bool {
			s := b.sampled(t)
			return count(s, metric.GPM) == c.gpus && count(s, metric.PM) == c.pm
		})
		b.cmd.Process.Signal(syscall.SIGINT)
		if code := b.end(t); code != 0 {
			t.Errorf("exit code %d:\n%s", code, contents(t, b.stderr))
		}
	}
}

// TestNoGPUMetrics samples nothing where a person does not want it, or where there is no library: a note says so.
func TestNoGPUMetrics(t *testing.T) {
	t.Parallel()
	b := startRecorder(t, []string{nvml(t)}, "--gpu-metrics", "off", sim("vectoradd"))
	if code := b.end(t); code != 0 || len(b.sampled(t)) > 0 {
		t.Errorf("exit code %d, sets %v", code, b.sampled(t))
	}
	if exec.Command("nvidia-smi").Run() == nil {
		t.Skip("there is a library here")
	}
	r := recordProgram(t, sim("vectoradd"))
	r.whole(t)
	out, err := exec.Command("cudatrace", "dump", r.base+".cudatrace").Output()
	if err != nil || !strings.Contains(string(out), "GPU metrics are not sampled: libnvidia-ml.so.1: cannot open") || strings.Contains(r.stderr, "GPU metrics") {
		t.Errorf("%v\n%s\n%s", err, out, r.stderr)
	}
}

// TestPMSampling samples the counters of the GPU that a program uses, the usual ones and one of a person's choice,
// beside GPM.
func TestPMSampling(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{{"--gpu-metrics", "2000"}, {"--gpu-metrics-set", metric.NameTensor}} {
		args := slices.Concat(options, []string{"--flush-interval", "50ms", sim("longrun"), long})
		b := startRecorder(t, []string{pmStack(t), roomyBuffer}, args...)
		// The report is of the time from the first GPU work to the last: samples alone may all lie outside.
		b.until(t, func() bool {
			logs, err := filepath.Glob(b.base + ".cudatrace*")
			if err != nil || len(logs) != 1 {
				return false
			}
			out, _ := exec.Command("cudatrace", "stats", logs[0], "--report", "metrics", "--format", "csv").Output() // it grows
			return strings.Contains(string(out), ","+metric.NameTensor+",PM sampling,0,") &&
				strings.Contains(string(out), ","+metric.NameGPMTensor+",GPM,0,")
		})
		b.endProgram(t)
		if code := b.end(t); code != 0 || strings.Contains(contents(t, b.stderr), "PM sampling") {
			t.Errorf("%q: exit code %d:\n%s", options, code, contents(t, b.stderr))
		}
	}
}

// TestListMetrics lists what the GPUs have, or says why nothing can be listed.
func TestListMetrics(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"CUDASIM_PM_BUSY=0": "and others of its type:\n+ " + metric.NameSMClockPM + "   ",
		"CUDASIM_DEVICES=0": "cudatrace: metrics cannot be listed: CUDA does not start in the sampler (cuInit: error 100)\n",
	} {
		cmd := exec.Command("cudatrace", "probes", "--gpu-metrics")
		cmd.Env = append(os.Environ(), pmStack(t), env)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != strings.HasPrefix(want, "and ") {
			t.Errorf("%s: %v\n%s", env, err, out)
		}
	}
}
