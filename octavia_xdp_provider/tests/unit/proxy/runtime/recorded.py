# SPDX-License-Identifier: Apache-2.0
"""Texts of HAProxy 2.6.12, cut to the columns that tests look at."""

LISTENER = '11111111-1111-1111-1111-111111111111'
POOL = '33333333-1111-1111-1111-111111111111'
MEMBERS = ('22222222-1111-1111-1111-111111111111',
           '22222222-1111-1111-1111-111111111112')
BACKEND = f'{POOL}:{LISTENER}'

STATISTICS = f'''\
# pxname,svname,qcur,scur,smax,stot,bin,bout,dreq,ereq,status,weight,hrsp_2xx,\
hrsp_5xx,rtime,-,
{LISTENER},FRONTEND,,2,5,30,4000,9000,1,3,OPEN,,27,2,,-,
health,FRONTEND,,0,1,80,100,100,0,0,OPEN,,80,0,,-,
{BACKEND},{MEMBERS[0]},0,1,1,20,2500,6000,,,MAINT,1,18,1,40,,
{BACKEND},{MEMBERS[1]},0,1,1,8,1500,3000,,,no check,1,9,0,20,,
{BACKEND},BACKEND,0,2,2,29,4000,9000,0,,UP,1,27,2,30,,
'''

PROCESSES = '''\
#<PID>          <type>          <reloads>       <uptime>        <version>
7494            master          2 [failed: 0]   0d00h00m01s     2.6.12
# workers
7510            worker          0               0d00h00m01s     2.6.12
# old workers
7500            worker          2               0d00h01m01s     2.6.12
# programs

'''

INFORMATION = '''\
Name: HAProxy
Version: 2.6.12-1+deb12u4
Pid: 7510
Stopping: 0
node: vm: a
'''
