package browser

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// DefaultUI is the address of Perfetto's own UI.
const DefaultUI = "https://ui.perfetto.dev"

// A UI is Perfetto's UI at an address: the public one, or a copy.
type UI struct {
	Address string // of its page, without a fragment
	Origin  string // as a browser writes it
}

// hostAndPort is a name or an address in lower case, and perhaps a port.
var hostAndPort = regexp.MustCompile(`^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)

// ParseUI reads the address of a UI.
func ParseUI(text string) (UI, error) {
	u, err := url.Parse(text)
	if err != nil {
		return UI{}, errors.New("it is not a URL")
	}
	host := strings.ToLower(u.Host)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return UI{}, errors.New("it must begin with https:// or http://")
	case !hostAndPort.MatchString(host):
		return UI{}, errors.New("its host is not a name in ASCII or an address")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return UI{}, errors.New("it must be a plain address: no user, no ?, no #")
	}
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; strings.HasSuffix(host, port) {
		host = strings.TrimSuffix(host, port) // a browser's origin has no port that the scheme implies
	}
	origin := u.Scheme + "://" + host
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return UI{Address: origin + path, Origin: origin}, nil
}

// plugins show the GPU work of each process, and what a kernel computes with. The UI has them, switched
// off.
const plugins = "dev.perfetto.GpuByProcess,com.meta.GpuCompute"

// folding makes the first screen the story: what each rank did, and the threads and streams of the first rank, or of
// the processes where there are no ranks. The UI begins with a row for each processor, and folds everything else. A UI
// that does not know startup commands does nothing.
const folding = `[{"id":"dev.perfetto.CollapseTracksByRegex","args":["^CPU Scheduling$"]},` +
	`{"id":"dev.perfetto.ExpandTracksByRegex","args":["^(All ranks|GPU|CUDA|rank 0: .*|(?!rank |GPU ).* [0-9]+)$"]}]`

// A View is the time that the UI shows first, in ns of the trace's clock.
type View struct{ From, To uint64 }

// address is the address at which the UI shows a view; trace is the address of a trace that the UI is
// to fetch itself, "" if it gets the trace in another way.
func (u UI) address(view View, trace string) string {
	var arguments []string
	if trace != "" {
		arguments = append(arguments, "url="+url.QueryEscape(trace))
	}
	if view.To > view.From {
		arguments = append(arguments, fmt.Sprintf("visStart=%d&visEnd=%d", view.From, view.To))
	}
	return u.Address + "#!/?" +
		strings.Join(append(arguments, "enablePlugins="+plugins, "startupCommands="+escaped(folding)), "&")
}

// escaped is a text as JavaScript's encodeURIComponent writes it, which the UI undoes: it takes a + for itself.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
