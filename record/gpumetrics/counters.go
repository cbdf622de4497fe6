package gpumetrics

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
)

// A PM says what PM sampling samples.
type PM struct {
	Rate      int      // samples a second
	Metrics   []string // nil: DefaultMetrics
	Libraries []string // libcupti, best first, as far as is known at the start
}

// metrics returns what is to be sampled.
func (p *PM) metrics() []string {
	if p.Metrics == nil {
		return DefaultMetrics
	}
	return p.Metrics
}

// samplesMax is the number of samples a second that one process decodes, with the default set: a sample takes 60 to 80
// us on an H200. Of 20,000 a second a third was lost.
const samplesMax = 12000

// countersSets is the first number of a set of PM sampling.
const countersSets = 0x10000

// instead says what a log has without PM sampling.
const instead = "the log has the values of GPM and NVML instead, every 200 ms,"

// counters is PM sampling in a recording. It runs in a process of its own.
type counters struct {
	process *samplerProcess // nil before the start
	tried   []string        // libraries
	offered []string        // libraries of the recorded processes, not tried yet
	failure string          // the last process's, until it is told
	off     bool            // there is no NVML to name the GPUs
	told    bool            // a line says why there is no PM sampling, or no more
}

// tellCounters gives the process an order.
func (s *Sampler) tellCounters(order, device uint32) {
	if s.counters.process != nil {
		s.counters.process.tell(order, device)
	}
}

// linkerNames find libcupti where the linker looks.
var linkerNames = []string{"libcupti.so.13", "libcupti.so.12"}

// libraries are the files to try at the start.
func (o *Options) libraries() []string {
	return append(usableLibraries(o.PM.Libraries, o.asRoot()), linkerNames...)
}

// usableLibraries leaves out what the sampler must not load, or cannot be told of.
func usableLibraries(list []string, root bool) (usable []string) {
	for _, path := range list {
		if folder, file := filepath.Split(path); filepath.IsAbs(path) && !strings.Contains(path, ":") &&
			(!root || ofRoot(folder, file)) {
			usable = append(usable, path)
		}
	}
	return usable
}

// tryCounters starts a process with libraries. The caller holds mu.
func (s *Sampler) tryCounters(list []string) {
	if len(list) == 0 || s.finished || s.counters.off {
		return
	}
	if old := s.counters.process; old != nil && old.conn != nil {
		old.kill() // it has said that it ends
		_ = old.conn.Close()
	}
	s.counters.tried = append(s.counters.tried, list...)
	s.counters.failure = ""
	pm := s.options.PM
	p := newProcess("pm", strings.Join(list, ":"), strconv.Itoa(pm.Rate), strings.Join(pm.metrics(), ","))
	p.environ = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	s.counters.process = p
	go s.run(p)
}

// offeredMax bounds the libraries that are kept.
const offeredMax = 64

// offer keeps libraries that a recorded process could load.
func (c *counters) offer(libraries []string) {
	for _, path := range libraries {
		if len(c.offered) < offeredMax && !slices.Contains(c.offered, path) && !slices.Contains(c.tried, path) {
			c.offered = append(c.offered, path)
		}
	}
}

// tryOffered starts a process anew after the failure of one, with libraries that came since. Without any
// the failure is told, once there are processes that use CUDA.
func (s *Sampler) tryOffered() {
	c := &s.counters
	if c.failure == "" || c.off || !s.gpus.begun {
		return
	}
	failure := c.failure
	s.tryCounters(c.offered)
	c.offered = nil
	if c.failure != "" {
		c.failure, c.told = "", true
		s.options.Remark(failure)
	}
}

// countersFailed is called when the process does not work from the start.
func (s *Sampler) countersFailed(why uint32, text string) {
	if s.counters.off {
		return
	}
	s.counters.failure = fmt.Sprintf("PM sampling does not start: %s; %s", s.options.remedy(why, text),
		strings.TrimSuffix(instead, ","))
	s.tryOffered()
}

// countersOff ends PM sampling for good.
func (s *Sampler) countersOff() {
	s.counters.off = true
	if p := s.counters.process; p != nil && p.conn != nil {
		p.ended = true
		p.kill()
	}
}

// remedy says why there is no PM sampling, and what to do.
func (o *Options) remedy(why uint32, text string) string {
	switch why {
	case noLibrary, oldLibrary:
		place := ""
		if o.asRoot() {
			place = ", in a folder that only root can change"
		}
		return "no libcupti of CUDA 12.6 or later is found (" + text +
			"); install it (CUDA's toolkit, or the Python package nvidia-cuda-cupti)" + place + ", and set CUDA_HOME"
	case noCUDA:
		return "CUDA does not start in the sampler (" + text + ")"
	case busy:
		return "another process uses the GPU's counters (a profiler, another recording, DCGM on GPUs before Hopper): end " +
			"it and record again (" + text + ")"
	case noRights:
		as := "record as root"
		if o.As != nil {
			as = "record in a shell of root, since the sampler has the rights of the user of sudo"
		}
		return "the driver keeps the GPU's counters for administrators (RmProfilingAdminOnly): load the module nvidia with " +
			"NVreg_RestrictProfilingToAdminUsers=0, or " + as + " (" + text + ")"
	case oldGPU:
		return "the GPU cannot be sampled; GPUs of compute capability 8.6 or later can (" + text + ")"
	case noMetric:
		return text + "; 'cudatrace probes --gpu-metrics' lists names"
	}
	return text
}

// A counted says how far PM sampling of a GPU is.
type counted int

const (
	countedNot     counted = iota
	countedStarted         // the sampler was told
	countedBegun           // there were samples
	countedRefused         // the sampler does not want to, or we do not
)

// startCounters starts PM sampling of a GPU that is used, or is the only one.
func (g *gpus) startCounters(n *gpu) {
	ordinal, known := g.ordinals[n.uuid]
	if !known || !g.begun || n.mig || !n.sampled || n.counted != countedNot || !n.used && len(g.all) > 1 {
		return
	}
	rate := g.options.PM.Rate
	for _, other := range g.all {
		if other.counted == countedStarted || other.counted == countedBegun {
			rate += g.options.PM.Rate
		}
	}
	if rate > samplesMax {
		n.counted = countedRefused
		g.options.Remark(fmt.Sprintf("PM sampling leaves out %s: the sampler decodes %d samples a second, of all "+
			"GPUs together; "+
			"--gpu-metrics=HZ sets the rate; %s",
			figures.UUID(n.uuid), samplesMax, strings.TrimSuffix(instead, ",")))
		return
	}
	n.counted = countedStarted
	g.count(orderStart, ordinal)
}

// stopCounters ends PM sampling of a GPU.
func (g *gpus) stopCounters(n *gpu) {
	if n.counted == countedStarted || n.counted == countedBegun {
		n.counted = countedNot
		g.count(orderStop, g.ordinals[n.uuid])
	}
}

// uncounted says which GPUs have no samples because recording ended during the start of PM sampling.
func (g *gpus) uncounted() {
	for _, n := range g.all {
		if g.begun && n.used && !n.mig && (n.counted == countedNot || n.counted == countedStarted) {
			g.options.Remark(fmt.Sprintf("PM sampling of %s had not begun when recording ended: its start takes about a "+
				"second, and longer while another process uses the GPU's counters; %s",
				figures.UUID(n.uuid), strings.TrimSuffix(instead, ",")))
		}
	}
}

// refused takes in that a GPU is not sampled.
func (g *gpus) refused(m refused) error {
	n := g.of(m.device, true)
	if n == nil || n.counted == countedRefused {
		return fmt.Errorf("it refuses GPU %d", m.device)
	}
	text := fmt.Sprintf("%s: %s", figures.UUID(n.uuid), g.options.remedy(m.why, strings.ToValidUTF8(m.text, "?")))
	if n.counted == countedBegun {
		g.options.Miss("PM sampling has ended early for " + text + "; " + instead + " from here on")
	} else {
		g.options.Remark("PM sampling does not start for " + text + "; " + strings.TrimSuffix(instead, ","))
	}
	n.counted = countedRefused
	for number, s := range n.series {
		s.cut = s.cut || number >= countersSets
	}
	return nil
}

// counts says which of the metrics a GPU does not have. NVLink's are of course missing where there is no link.
func (g *gpus) counts(n *gpu, s *series) {
	var out []string
	for _, name := range g.options.PM.metrics() {
		has := slices.ContainsFunc(s.set.Metrics, func(m metric.Metric) bool { return m.Name == name })
		if nvlink := g.options.PM.Metrics == nil && (name == metric.NameNVLinkRx || name == metric.NameNVLinkTx); !has &&
			!nvlink {
			out = append(out, name)
		}
	}
	text := fmt.Sprintf("PM sampling of %s leaves out %s: the GPU has no such metric, or it does not fit one pass "+
		"with those before it; 'cudatrace probes --gpu-metrics' lists names", figures.UUID(n.uuid), strings.Join(out, ", "))
	switch {
	case len(out) == 0:
	case g.options.PM.Metrics == nil:
		g.options.Note(text)
	default:
		g.options.Remark(text)
	}
}

// first notes from when on a GPU has samples of its counters.
func (g *gpus) first(s *series, start uint64) {
	if s.last > 0 || metric.Source(s.set.Source) != metric.PM {
		return
	}
	for _, n := range g.all {
		if n.uuid == s.set.UUID && n.counted == countedStarted {
			n.counted = countedBegun
			if n.since > 0 && start > n.since {
				g.options.Note(fmt.Sprintf("PM sampling of %s begins %s after its first use", figures.UUID(n.uuid),
					time.Duration(start-n.since).Round(time.Millisecond)))
			}
		}
	}
}
