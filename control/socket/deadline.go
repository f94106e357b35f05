package socket

import (
	"net/http"
	"time"
)

// stallTimeout is the maximum time in which a client reads nothing of an answer. It is long enough
// for pagers, and bounds the time for which a stalled client keeps a list in the router's memory.
//
// Content is exempt: it is never in memory as a whole.
const stallTimeout = time.Minute

// writeSize is the size of the writes that each get a deadline, in bytes.
const writeSize = 64 << 10

// deadlineWriter writes an answer and fails when the client stalls.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // per write
}

func (w *deadlineWriter) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		if err = w.control.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			break
		}
		var n int
		n, err = w.ResponseWriter.Write(p[written:min(len(p), written+writeSize)])
		written += n
	}
	return written, err
}
