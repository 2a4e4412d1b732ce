module octavia-xdp-provider.example/bench/hc

go 1.26
