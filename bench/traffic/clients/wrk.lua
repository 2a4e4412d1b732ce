-- SPDX-License-Identifier: Apache-2.0
-- Ends a run of wrk with one line of JSON: times in microseconds.
function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format(
      '{"duration_us": %.0f, "requests": %.0f, "latency_us": {"p50": %.0f, ' ..
      '"p90": %.0f, "p99": %.0f, "max": %.0f}, "errors": {"connect": %.0f, ' ..
      '"read": %.0f, "write": %.0f, "status": %.0f, "timeout": %.0f}}\n',
      summary.duration, summary.requests, latency:percentile(50),
      latency:percentile(90), latency:percentile(99), latency.max,
      errors.connect, errors.read, errors.write, errors.status,
      errors.timeout))
end
