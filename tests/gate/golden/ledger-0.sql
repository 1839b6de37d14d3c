PRAGMA page_size = 1024;
PRAGMA journal_mode = wal;
PRAGMA application_id = 1752132708;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE anchor (
    one integer primary key check (one = 1),
    boot text not null, uptime integer not null, ledger integer not null,
    slept integer not null, asleep integer not null
);
INSERT INTO "anchor" VALUES(1,'fake-boot-1',1000000000,1735689600000000,0,0);
CREATE TABLE events (
    seq integer primary key,
    at integer not null,
    token integer not null,      -- the largest token issued so far
    type text not null,
    version integer not null,
    data text not null
);
INSERT INTO "events" VALUES(1,1735689600000000,1735689600000000,'lock_acquired',1,'{"id":"01a1ea73-4433-78e7-8995-9337f1e6f96f","holder":{"id":"claude:9af06104","key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","witness":["golden-host","golden-boot","4026531836",5000,100],"marks":["CLAUDE_CODE_SESSION_ID=9af06104-75a9-583b-9d61-8d3891e48bfa"],"client":"claude","session":"9af06104-75a9-583b-9d61-8d3891e48bfa"},"keys":["app/x.py","inode:999999999-1"],"modes":"ww","token":1735689600000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(2,1735689600000000,1735689600000001,'lock_acquired',1,'{"id":"01a1ea73-444d-7f85-8889-34ae3e6f8353","holder":{"id":"claude:f0814790","key":"@claude/f0814790-fc20-5175-9fe2-114b23521c75/","witness":["golden-host","golden-boot","4026531836",5001,101],"marks":["CLAUDE_CODE_SESSION_ID=f0814790-fc20-5175-9fe2-114b23521c75"],"client":"claude","session":"f0814790-fc20-5175-9fe2-114b23521c75"},"keys":["lib/y.py","inode:999999999-2"],"modes":"ww","token":1735689600000001,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(3,1735689600000000,1735689600000002,'lock_acquired',1,'{"id":"01a1ea73-4464-726a-8884-d56e91448b3b","holder":{"id":"claude:96fae25f","key":"@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/","witness":["golden-host","golden-boot","4026531836",5002,102],"marks":["CLAUDE_CODE_SESSION_ID=96fae25f-6da1-59c5-9b0b-51f9e4de6006"],"client":"claude","session":"96fae25f-6da1-59c5-9b0b-51f9e4de6006"},"keys":["app/dan.py","inode:999999999-3"],"modes":"ww","token":1735689600000002,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(4,1735689600000000,1735689600000003,'lock_acquired',1,'{"id":"01a1ea73-4480-76c2-8d23-0f2858c4663e","holder":{"id":"claude:40084ead","key":"@claude/40084ead-24d6-5053-911e-c8030b259dfd/","witness":["golden-host","golden-boot","4026531836",5004,104],"marks":["CLAUDE_CODE_SESSION_ID=40084ead-24d6-5053-911e-c8030b259dfd"],"client":"claude","session":"40084ead-24d6-5053-911e-c8030b259dfd"},"keys":["app/kim.py","inode:999999999-4"],"modes":"ww","token":1735689600000003,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(5,1735689600000000,1735689600000003,'lock_refused',1,'{"holder":"claude:56790952","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f"]}');
INSERT INTO "events" VALUES(6,1735689600000000,1735689600000003,'ticket_added',1,'{"id":"01a1ea73-449a-7bdb-89ee-213f99b41c59","holder":{"id":"claude:56790952","key":"@claude/56790952-7dc5-5a7b-a896-6b40fa7eb728/","witness":["golden-host","golden-boot","4026531836",5014,114],"marks":["CLAUDE_CODE_SESSION_ID=56790952-7dc5-5a7b-a896-6b40fa7eb728"],"client":"claude","session":"56790952-7dc5-5a7b-a896-6b40fa7eb728"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(7,1735689600000000,1735689600000003,'contention_heartbeat',1,'{"agent":"claude:56790952","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689600000000,"retry_at":1735689780000000,"retry_seconds":180,"ticket":"01a1ea73-449a-7bdb-89ee-213f99b41c59","circle":[],"note":"gate:@claude/56790952-7dc5-5a7b-a896-6b40fa7eb728/:retry:01a1ea73-449a-7bdb-89ee-213f99b41c59"}');
INSERT INTO "events" VALUES(8,1735689600000000,1735689600000003,'ticket_reserved',1,'{"ticket":"01a1ea73-449a-7bdb-89ee-213f99b41c59","holder":"claude:56790952"}');
INSERT INTO "events" VALUES(9,1735689600000000,1735689600000003,'lock_refused',1,'{"holder":"claude:96fae25f","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59"]}');
INSERT INTO "events" VALUES(10,1735689600000000,1735689600000003,'ticket_added',1,'{"id":"01a1ea73-44a3-7265-8a80-2a0efe015a75","holder":{"id":"claude:96fae25f","key":"@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/","witness":["golden-host","golden-boot","4026531836",5002,102],"marks":["CLAUDE_CODE_SESSION_ID=96fae25f-6da1-59c5-9b0b-51f9e4de6006"],"client":"claude","session":"96fae25f-6da1-59c5-9b0b-51f9e4de6006"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(11,1735689600000000,1735689600000003,'contention_heartbeat',1,'{"agent":"claude:96fae25f","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689600000000,"retry_at":1735689780000000,"retry_seconds":180,"ticket":"01a1ea73-44a3-7265-8a80-2a0efe015a75","circle":[],"note":"gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:retry:01a1ea73-44a3-7265-8a80-2a0efe015a75"}');
INSERT INTO "events" VALUES(12,1735689600000000,1735689600000003,'ticket_reserved',1,'{"ticket":"01a1ea73-44a3-7265-8a80-2a0efe015a75","holder":"claude:96fae25f"}');
INSERT INTO "events" VALUES(13,1735689600000000,1735689600000003,'lock_refused',1,'{"holder":"claude:40084ead","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59","01a1ea73-44a3-7265-8a80-2a0efe015a75"]}');
INSERT INTO "events" VALUES(14,1735689600000000,1735689600000003,'ticket_added',1,'{"id":"01a1ea73-44aa-7161-8714-f39f2a60513f","holder":{"id":"claude:40084ead","key":"@claude/40084ead-24d6-5053-911e-c8030b259dfd/","witness":["golden-host","golden-boot","4026531836",5004,104],"marks":["CLAUDE_CODE_SESSION_ID=40084ead-24d6-5053-911e-c8030b259dfd"],"client":"claude","session":"40084ead-24d6-5053-911e-c8030b259dfd"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(15,1735689600000000,1735689600000003,'contention_heartbeat',1,'{"agent":"claude:40084ead","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689600000000,"retry_at":1735689780000000,"retry_seconds":180,"ticket":"01a1ea73-44aa-7161-8714-f39f2a60513f","circle":[],"note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:retry:01a1ea73-44aa-7161-8714-f39f2a60513f"}');
INSERT INTO "events" VALUES(16,1735689600000000,1735689600000003,'agent_calls',1,'{"agent":"claude:40aa64d6","parent":"@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/","note":"family:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/:call:01a1ea73-44af-7dec-8ff7-a35946529db3"}');
INSERT INTO "events" VALUES(17,1735689600000000,1735689600000003,'agent_ended',1,'{"note":"family:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/:call:01a1ea73-44af-7dec-8ff7-a35946529db3","over":true}');
INSERT INTO "events" VALUES(18,1735689600000000,1735689600000003,'ticket_reserved',1,'{"ticket":"01a1ea73-44aa-7161-8714-f39f2a60513f","holder":"claude:40084ead"}');
INSERT INTO "events" VALUES(19,1735689600000000,1735689600000003,'lock_refused',1,'{"holder":"claude:40aa64d6:a0000000","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59","01a1ea73-44a3-7265-8a80-2a0efe015a75","01a1ea73-44aa-7161-8714-f39f2a60513f"]}');
INSERT INTO "events" VALUES(20,1735689600000000,1735689600000003,'ticket_added',1,'{"id":"01a1ea73-44b5-7158-88bd-bcc5616ab34d","holder":{"id":"claude:40aa64d6:a0000000","key":"@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001","witness":["golden-host","golden-boot","4026531836",5003,103],"marks":["CLAUDE_CODE_SESSION_ID=40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5"],"client":"claude","session":"40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5","agent":"a0000000000000001","parent":"@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(21,1735689600000000,1735689600000003,'contention_heartbeat',1,'{"agent":"claude:40aa64d6:a0000000","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689600000000,"retry_at":1735689780000000,"retry_seconds":180,"ticket":"01a1ea73-44b5-7158-88bd-bcc5616ab34d","circle":[],"note":"gate:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001:retry:01a1ea73-44b5-7158-88bd-bcc5616ab34d"}');
INSERT INTO "events" VALUES(22,1735689780000000,1735689600000003,'ticket_dropped',1,'{"ticket":"01a1ea73-44a3-7265-8a80-2a0efe015a75","holder":"claude:96fae25f","why":"retried"}');
INSERT INTO "events" VALUES(23,1735689780000000,1735689600000003,'ticket_reserved',1,'{"ticket":"01a1ea73-44b5-7158-88bd-bcc5616ab34d","holder":"claude:40aa64d6:a0000000"}');
INSERT INTO "events" VALUES(24,1735689780000000,1735689600000003,'lock_refused',1,'{"holder":"claude:96fae25f","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59","01a1ea73-44aa-7161-8714-f39f2a60513f","01a1ea73-44b5-7158-88bd-bcc5616ab34d"]}');
INSERT INTO "events" VALUES(25,1735689780000000,1735689600000003,'contention_over',1,'{"agent":"claude:96fae25f","blocked":true,"note":"gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:retry:01a1ea73-44a3-7265-8a80-2a0efe015a75","over":true}');
INSERT INTO "events" VALUES(26,1735689780000000,1735689600000003,'agent_blocked',1,'{"agent":"claude:96fae25f","report":{"state":"waiting_for_instruction","agent":"claude:96fae25f","blocked_file":"app/x.py","owner":"claude:9af06104","lock_age_seconds":180.0,"last_heartbeat":"2025-01-01T00:00:00.000000Z","retry_interval_seconds":180,"blocked_at":"2025-01-01T00:03:00.000000Z","paths":["app/x.py"]},"note":"gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:blocked:01a1ea73-44a3-7265-8a80-2a0efe015a75"}');
INSERT INTO "events" VALUES(27,1735689780000000,1735689600000003,'lock_renewed',1,'{"grant":"01a1ea73-4464-726a-8884-d56e91448b3b","holder":"claude:96fae25f","expires_at":null,"idle_at":1735689810000000,"slept":0}');
INSERT INTO "events" VALUES(28,1735689780000000,1735689600000003,'agent_resting',1,'{"agent":"claude:96fae25f","seconds":30.0,"note":"gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:rest"}');
INSERT INTO "events" VALUES(29,1735689780000000,1735689600000003,'ticket_dropped',1,'{"ticket":"01a1ea73-44aa-7161-8714-f39f2a60513f","holder":"claude:40084ead","why":"retried"}');
INSERT INTO "events" VALUES(30,1735689780000000,1735689600000003,'lock_refused',1,'{"holder":"claude:40084ead","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59","01a1ea73-44b5-7158-88bd-bcc5616ab34d"]}');
INSERT INTO "events" VALUES(31,1735689780000000,1735689600000003,'contention_over',1,'{"agent":"claude:40084ead","blocked":true,"note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:retry:01a1ea73-44aa-7161-8714-f39f2a60513f","over":true}');
INSERT INTO "events" VALUES(32,1735689780000000,1735689600000003,'agent_blocked',1,'{"agent":"claude:40084ead","report":{"state":"waiting_for_instruction","agent":"claude:40084ead","blocked_file":"app/x.py","owner":"claude:9af06104","lock_age_seconds":180.0,"last_heartbeat":"2025-01-01T00:00:00.000000Z","retry_interval_seconds":180,"blocked_at":"2025-01-01T00:03:00.000000Z","paths":["app/x.py"]},"note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:blocked:01a1ea73-44aa-7161-8714-f39f2a60513f"}');
INSERT INTO "events" VALUES(33,1735689780000000,1735689600000003,'lock_renewed',1,'{"grant":"01a1ea73-4480-76c2-8d23-0f2858c4663e","holder":"claude:40084ead","expires_at":null,"idle_at":1735689810000000,"slept":0}');
INSERT INTO "events" VALUES(34,1735689780000000,1735689600000003,'agent_resting',1,'{"agent":"claude:40084ead","seconds":30.0,"note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:rest"}');
INSERT INTO "events" VALUES(35,1735689780000000,1735689600000003,'ticket_dropped',1,'{"ticket":"01a1ea73-44b5-7158-88bd-bcc5616ab34d","holder":"claude:40aa64d6:a0000000","why":"retried"}');
INSERT INTO "events" VALUES(36,1735689780000000,1735689600000003,'lock_refused',1,'{"holder":"claude:40aa64d6:a0000000","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59"]}');
INSERT INTO "events" VALUES(37,1735689780000000,1735689600000003,'contention_over',1,'{"agent":"claude:40aa64d6:a0000000","blocked":true,"note":"gate:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001:retry:01a1ea73-44b5-7158-88bd-bcc5616ab34d","over":true}');
INSERT INTO "events" VALUES(38,1735689780000000,1735689600000003,'agent_blocked',1,'{"agent":"claude:40aa64d6:a0000000","report":{"state":"waiting_for_instruction","agent":"claude:40aa64d6:a0000000","blocked_file":"app/x.py","owner":"claude:9af06104","lock_age_seconds":180.0,"last_heartbeat":"2025-01-01T00:00:00.000000Z","retry_interval_seconds":180,"blocked_at":"2025-01-01T00:03:00.000000Z","paths":["app/x.py"]},"note":"gate:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001:blocked:01a1ea73-44b5-7158-88bd-bcc5616ab34d"}');
INSERT INTO "events" VALUES(39,1735689780000000,1735689600000003,'agent_resumed',1,'{"agent":"claude:40084ead","by":"a new prompt","note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:blocked:01a1ea73-44aa-7161-8714-f39f2a60513f","over":true}');
INSERT INTO "events" VALUES(40,1735689780000000,1735689600000003,'lock_renewed',1,'{"grant":"01a1ea73-4480-76c2-8d23-0f2858c4663e","holder":"claude:40084ead","expires_at":null,"idle_at":null,"slept":0}');
INSERT INTO "events" VALUES(41,1735689780000000,1735689600000003,'agent_awake',1,'{"agent":"claude:40084ead","note":"gate:@claude/40084ead-24d6-5053-911e-c8030b259dfd/:rest","over":true}');
INSERT INTO "events" VALUES(42,1735689780000000,1735689780000000,'lock_acquired',1,'{"id":"01a1ea73-44d9-7e44-8aec-72a8a0af8829","holder":{"id":"claude:40084ead","key":"@claude/40084ead-24d6-5053-911e-c8030b259dfd/","witness":["golden-host","golden-boot","4026531836",5004,104],"marks":["CLAUDE_CODE_SESSION_ID=40084ead-24d6-5053-911e-c8030b259dfd"],"client":"claude","session":"40084ead-24d6-5053-911e-c8030b259dfd"},"keys":["app/z.py","inode:999999999-6"],"modes":"ww","token":1735689780000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(43,1735689785000000,1735689780000000,'agent_calls',1,'{"agent":"claude:4888487c","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-44eb-7082-8349-0143f14ab7d4"}');
INSERT INTO "events" VALUES(44,1735689785000000,1735689780000000,'agent_ended',1,'{"note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-44eb-7082-8349-0143f14ab7d4","over":true}');
INSERT INTO "events" VALUES(45,1735689785000000,1735689785000000,'lock_acquired',1,'{"id":"01a1ea73-451e-7bc6-8b66-2618b2292bd7","holder":{"id":"claude:4888487c:a0000000","key":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","witness":["golden-host","golden-boot","4026531836",5005,105],"marks":["CLAUDE_CODE_SESSION_ID=4888487c-e87d-589e-934d-1d7b0726ac3d"],"client":"claude","session":"4888487c-e87d-589e-934d-1d7b0726ac3d","agent":"a0000000000000002","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/"},"keys":["README.md","inode:999999999-7"],"modes":"ww","token":1735689785000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(46,1735689785000000,1735689785000000,'agent_calls',1,'{"agent":"claude:4888487c:a0000000","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-452d-729e-812b-4c98f53a33bb"}');
INSERT INTO "events" VALUES(47,1735689785000000,1735689785000000,'agent_ended',1,'{"note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-452d-729e-812b-4c98f53a33bb","over":true}');
INSERT INTO "events" VALUES(48,1735689785000000,1735689785000000,'agent_started',1,'{"child":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000003","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:child:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000003"}');
INSERT INTO "events" VALUES(49,1735689785000000,1735689785000001,'lock_acquired',1,'{"id":"01a1ea73-453a-71e8-807e-90034375cbd0","holder":{"id":"claude:4888487c:a0000000","key":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000003","witness":["golden-host","golden-boot","4026531836",5005,105],"marks":["CLAUDE_CODE_SESSION_ID=4888487c-e87d-589e-934d-1d7b0726ac3d"],"client":"claude","session":"4888487c-e87d-589e-934d-1d7b0726ac3d","agent":"a0000000000000003","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/"},"keys":["lib/grand.py","inode:999999999-8"],"modes":"ww","token":1735689785000001,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(50,1735689785000000,1735689785000001,'lock_moved',1,'{"grant":"01a1ea73-453a-71e8-807e-90034375cbd0","holder":"claude:4888487c:a0000000","token":1735689785000001,"paths":["lib/grand.py"],"to":[{"holder":"claude:4888487c:a0000000","grant":"01a1ea73-4542-7e95-84f5-b2bb7b11d033"}]}');
INSERT INTO "events" VALUES(51,1735689785000000,1735689785000002,'lock_acquired',1,'{"id":"01a1ea73-4542-7e95-84f5-b2bb7b11d033","holder":{"id":"claude:4888487c:a0000000","key":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","witness":["golden-host","golden-boot","4026531836",5005,105],"marks":["CLAUDE_CODE_SESSION_ID=4888487c-e87d-589e-934d-1d7b0726ac3d"],"client":"claude","session":"4888487c-e87d-589e-934d-1d7b0726ac3d","agent":"a0000000000000002","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/"},"keys":["lib/grand.py","inode:999999999-8"],"modes":"ww","token":1735689785000002,"ttl":null,"reason":"edit, changed"}');
INSERT INTO "events" VALUES(52,1735689785000000,1735689785000002,'agent_ended',1,'{"note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:child:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000003","over":true}');
INSERT INTO "events" VALUES(53,1735689785000000,1735689785000002,'agent_calls',1,'{"agent":"claude:4888487c:a0000000","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-4547-7911-8e72-092a86c8ce5c"}');
INSERT INTO "events" VALUES(54,1735689785000000,1735689785000002,'agent_ended',1,'{"note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-4547-7911-8e72-092a86c8ce5c","over":true}');
INSERT INTO "events" VALUES(55,1735689785000000,1735689785000002,'agent_started',1,'{"child":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:child:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004"}');
INSERT INTO "events" VALUES(56,1735689785000000,1735689785000003,'lock_acquired',1,'{"id":"01a1ea73-4553-7762-84b3-f66b2a28fd11","holder":{"id":"claude:4888487c:a0000000","key":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004","witness":["golden-host","golden-boot","4026531836",5005,105],"marks":["CLAUDE_CODE_SESSION_ID=4888487c-e87d-589e-934d-1d7b0726ac3d"],"client":"claude","session":"4888487c-e87d-589e-934d-1d7b0726ac3d","agent":"a0000000000000004","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/"},"keys":["lib/new.py"],"modes":"w","token":1735689785000003,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(57,1735689800000000,1735689785000003,'lock_refused',1,'{"holder":"claude:f0814790","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59"]}');
INSERT INTO "events" VALUES(58,1735689800000000,1735689785000003,'ticket_added',1,'{"id":"01a1ea73-4559-7d67-87f6-0befecc5819c","holder":{"id":"claude:f0814790","key":"@claude/f0814790-fc20-5175-9fe2-114b23521c75/","witness":["golden-host","golden-boot","4026531836",5001,101],"marks":["CLAUDE_CODE_SESSION_ID=f0814790-fc20-5175-9fe2-114b23521c75"],"client":"claude","session":"f0814790-fc20-5175-9fe2-114b23521c75"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(59,1735689800000000,1735689785000003,'contention_heartbeat',1,'{"agent":"claude:f0814790","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689800000000,"retry_at":1735689980000000,"retry_seconds":180,"ticket":"01a1ea73-4559-7d67-87f6-0befecc5819c","circle":[],"note":"gate:@claude/f0814790-fc20-5175-9fe2-114b23521c75/:retry:01a1ea73-4559-7d67-87f6-0befecc5819c"}');
INSERT INTO "events" VALUES(60,1735689800000000,1735689785000003,'lock_refused',1,'{"holder":"claude:9af06104","paths":["lib/y.py","lib/y.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-444d-7f85-8889-34ae3e6f8353"]}');
INSERT INTO "events" VALUES(61,1735689800000000,1735689785000003,'lock_refused',1,'{"holder":"claude:9af06104","paths":["lib/y.py","lib/y.py"],"modes":"ww","code":"E_LOCK_CYCLE","blockers":["01a1ea73-444d-7f85-8889-34ae3e6f8353"]}');
INSERT INTO "events" VALUES(62,1735689800000000,1735689785000003,'contention_heartbeat',1,'{"agent":"claude:9af06104","paths":["lib/y.py"],"keys":["lib/y.py","inode:999999999-9"],"blocked":["lib/y.py"],"owner":"claude:f0814790","owner_key":"@claude/f0814790-fc20-5175-9fe2-114b23521c75/","since":1735689600000000,"denied_at":1735689800000000,"retry_at":1735689980000000,"retry_seconds":180,"ticket":"","circle":[["lib/y.py","claude:f0814790"],["app/x.py","claude:56790952"],["app/x.py","claude:9af06104"]],"note":"gate:@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/:retry:01a1ea73-455f-7ee9-8f64-b3d4e743ab33"}');
INSERT INTO "events" VALUES(63,1735689800000000,1735689800000000,'lock_acquired',1,'{"id":"01a1ea73-4568-7dce-8fe2-d5de0fef2991","holder":{"id":"codex:f3da0afe","key":"@codex/f3da0afe-ddfd-5367-9653-73ab7c3869ff/","witness":["golden-host","golden-boot","4026531836",5009,109],"marks":["CODEX_SESSION_ID=f3da0afe-ddfd-5367-9653-73ab7c3869ff"],"client":"codex","session":"f3da0afe-ddfd-5367-9653-73ab7c3869ff"},"keys":["app/cox.py","inode:999999999-10"],"modes":"ww","token":1735689800000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(64,1735689800000000,1735689800000000,'lock_refused',1,'{"holder":"codex:d8437b03","paths":["app/cox.py","app/cox.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4568-7dce-8fe2-d5de0fef2991"]}');
INSERT INTO "events" VALUES(65,1735689800000000,1735689800000000,'ticket_added',1,'{"id":"01a1ea73-456e-7974-8ccd-e344070eaca9","holder":{"id":"codex:d8437b03","key":"@codex/d8437b03-e9a8-573e-98df-c29824383722/","witness":["golden-host","golden-boot","4026531836",5010,110],"marks":["CODEX_SESSION_ID=d8437b03-e9a8-573e-98df-c29824383722"],"client":"codex","session":"d8437b03-e9a8-573e-98df-c29824383722"},"keys":["app/cox.py","inode:999999999-10"],"modes":"ww","paths":["app/cox.py","app/cox.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(66,1735689800000000,1735689800000000,'contention_heartbeat',1,'{"agent":"codex:d8437b03","paths":["app/cox.py"],"keys":["app/cox.py","inode:999999999-10"],"blocked":["app/cox.py"],"owner":"codex:f3da0afe","owner_key":"@codex/f3da0afe-ddfd-5367-9653-73ab7c3869ff/","since":1735689800000000,"denied_at":1735689800000000,"retry_at":1735689980000000,"retry_seconds":180,"ticket":"01a1ea73-456e-7974-8ccd-e344070eaca9","circle":[],"note":"gate:@codex/d8437b03-e9a8-573e-98df-c29824383722/:retry:01a1ea73-456e-7974-8ccd-e344070eaca9"}');
INSERT INTO "events" VALUES(67,1735689800000000,1735689800000001,'lock_acquired',1,'{"id":"01a1ea73-4574-7117-82c7-e34c25436b17","holder":{"id":"claude:ce582f89","key":"@claude/ce582f89-1c81-5bf5-8735-027612d666e6/","witness":["golden-host","golden-boot","4026531836",5012,112],"marks":["CLAUDE_CODE_SESSION_ID=ce582f89-1c81-5bf5-8735-027612d666e6"],"client":"claude","session":"ce582f89-1c81-5bf5-8735-027612d666e6"},"keys":["app/mia.py","inode:999999999-11"],"modes":"ww","token":1735689800000001,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(68,1735689800000000,1735689800000001,'lock_refused',1,'{"holder":"claude:64d456c3","paths":["app/mia.py","app/mia.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4574-7117-82c7-e34c25436b17"]}');
INSERT INTO "events" VALUES(69,1735689800000000,1735689800000001,'ticket_added',1,'{"id":"01a1ea73-457a-7325-8991-10bc4193e947","holder":{"id":"claude:64d456c3","key":"@claude/64d456c3-518d-50db-848a-78957107dcbc/","witness":["golden-host","golden-boot","4026531836",5013,113],"marks":["CLAUDE_CODE_SESSION_ID=64d456c3-518d-50db-848a-78957107dcbc"],"client":"claude","session":"64d456c3-518d-50db-848a-78957107dcbc"},"keys":["app/mia.py","inode:999999999-12"],"modes":"ww","paths":["app/mia.py","app/mia.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":null,"wake":"","grace":0}');
INSERT INTO "events" VALUES(70,1735689800000000,1735689800000001,'contention_heartbeat',1,'{"agent":"claude:64d456c3","paths":["app/mia.py"],"keys":["app/mia.py","inode:999999999-12"],"blocked":["app/mia.py"],"owner":"claude:ce582f89","owner_key":"@claude/ce582f89-1c81-5bf5-8735-027612d666e6/","since":1735689800000000,"denied_at":1735689800000000,"retry_at":1735689980000000,"retry_seconds":180,"ticket":"01a1ea73-457a-7325-8991-10bc4193e947","circle":[],"note":"gate:@claude/64d456c3-518d-50db-848a-78957107dcbc/:retry:01a1ea73-457a-7325-8991-10bc4193e947"}');
INSERT INTO "events" VALUES(71,1735689800000000,1735689800000001,'lock_released',1,'{"grant":"01a1ea73-4574-7117-82c7-e34c25436b17","holder":"claude:ce582f89","token":1735689800000001,"paths":["app/mia.py"]}');
INSERT INTO "events" VALUES(72,1735689800000000,1735689800000002,'lock_acquired',1,'{"id":"01a1ea73-457a-7325-8991-10bc4193e947","holder":{"id":"claude:64d456c3","key":"@claude/64d456c3-518d-50db-848a-78957107dcbc/","witness":["golden-host","golden-boot","4026531836",5013,113],"marks":["CLAUDE_CODE_SESSION_ID=64d456c3-518d-50db-848a-78957107dcbc"],"client":"claude","session":"64d456c3-518d-50db-848a-78957107dcbc"},"keys":["app/mia.py","inode:999999999-12"],"modes":"ww","token":1735689800000002,"ttl":190000000,"reason":"edit","ticket":true}');
INSERT INTO "events" VALUES(73,1735689805000000,1735689800000002,'ticket_reserved',1,'{"ticket":"01a1ea73-4559-7d67-87f6-0befecc5819c","holder":"claude:f0814790"}');
INSERT INTO "events" VALUES(74,1735689805000000,1735689800000002,'lock_refused',1,'{"holder":"claude:3450ed7e","paths":["app/x.py","app/x.py"],"modes":"ww","code":"E_LOCK_CONFLICT","blockers":["01a1ea73-4433-78e7-8995-9337f1e6f96f","01a1ea73-449a-7bdb-89ee-213f99b41c59","01a1ea73-4559-7d67-87f6-0befecc5819c"]}');
INSERT INTO "events" VALUES(75,1735689805000000,1735689800000002,'ticket_added',1,'{"id":"01a1ea73-4585-7fba-86b6-2a5bed889e3b","holder":{"id":"claude:3450ed7e","key":"@claude/3450ed7e-08bb-57a4-bf04-c9b165a9de01/","witness":["golden-host","golden-boot","4026531836",5015,115],"marks":["CLAUDE_CODE_SESSION_ID=3450ed7e-08bb-57a4-bf04-c9b165a9de01"],"client":"claude","session":"3450ed7e-08bb-57a4-bf04-c9b165a9de01"},"keys":["app/x.py","inode:999999999-5"],"modes":"ww","paths":["app/x.py","app/x.py"],"silent":[],"ttl":190000000,"reason":"edit","priority":0,"patience":0,"waiter":["golden-host","golden-boot","4026531836",6000,600],"wake":"wake-w22281-2416bf499924","grace":0}');
INSERT INTO "events" VALUES(76,1735689805000000,1735689800000002,'contention_heartbeat',1,'{"agent":"claude:3450ed7e","paths":["app/x.py"],"keys":["app/x.py","inode:999999999-5"],"blocked":["app/x.py"],"owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","since":1735689600000000,"denied_at":1735689805000000,"retry_at":1735689985000000,"retry_seconds":180,"ticket":"01a1ea73-4585-7fba-86b6-2a5bed889e3b","circle":[],"note":"gate:@claude/3450ed7e-08bb-57a4-bf04-c9b165a9de01/:retry:01a1ea73-4585-7fba-86b6-2a5bed889e3b"}');
INSERT INTO "events" VALUES(77,1735689805000000,1735689800000002,'damage',1,'{"id":"ae197ea1","by":"claude:37baa949","by_key":"@claude/37baa949-a24f-5053-ae74-51aaca6ac639/","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo app/x.py)","files":[{"path":"app/x.py","owner":"claude:9af06104","owner_key":"@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/","before":"273e36e1e21202bf7d464d519c250643","was":"file","mode":420,"after":"92e2f2c47fb070123c0e89f1f20ec353","kept":true,"number":0}],"note":"damaged:ae197ea1"}');
INSERT INTO "events" VALUES(78,1735689805000000,1735689800000002,'damage_to_be_told',1,'{"id":"ae197ea1","by":"claude:37baa949","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo app/x.py)","paths":["app/x.py"],"note":"damage-for:@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/:ae197ea1"}');
INSERT INTO "events" VALUES(79,1735689805000000,1735689800000002,'damage',1,'{"id":"d9f91a08","by":"claude:8a0baa4d","by_key":"@claude/8a0baa4d-de92-5039-be21-5ec640cd9740/","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo lib/y.py)","files":[{"path":"lib/y.py","owner":"claude:f0814790","owner_key":"@claude/f0814790-fc20-5175-9fe2-114b23521c75/","before":"273e36e1e21202bf7d464d519c250643","was":"file","mode":420,"after":"92e2f2c47fb070123c0e89f1f20ec353","kept":true,"number":0}],"note":"damaged:d9f91a08"}');
INSERT INTO "events" VALUES(80,1735689805000000,1735689800000002,'damage_to_be_told',1,'{"id":"d9f91a08","by":"claude:8a0baa4d","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo lib/y.py)","paths":["lib/y.py"],"note":"damage-for:@claude/f0814790-fc20-5175-9fe2-114b23521c75/:d9f91a08"}');
INSERT INTO "events" VALUES(81,1735689805000000,1735689800000002,'damage_to_be_told',1,'{"id":"d9f91a08","by":"claude:8a0baa4d","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo lib/y.py)","paths":["lib/y.py (claude:f0814790)"],"note":"damage-for:@claude/8a0baa4d-de92-5039-be21-5ec640cd9740/:d9f91a08"}');
INSERT INTO "events" VALUES(82,1735689805000000,1735689805000000,'lock_acquired',1,'{"id":"01a1ea73-46ca-7af8-8333-376488e81dae","holder":{"id":"claude:ff764e01","key":"@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/","witness":["golden-host","golden-boot","4026531836",5016,116],"marks":["CLAUDE_CODE_SESSION_ID=ff764e01-0d7d-521a-9ba1-bca1dcb19ba1"],"client":"claude","session":"ff764e01-0d7d-521a-9ba1-bca1dcb19ba1"},"keys":["app/sue.py","inode:999999999-13"],"modes":"ww","token":1735689805000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(83,1735689805000000,1735689805000001,'lock_acquired',1,'{"id":"01a1ea73-473d-715b-83e7-c5d78721af29","holder":{"id":"claude:ff764e01","key":"@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/","witness":["golden-host","golden-boot","4026531836",5016,116],"marks":["CLAUDE_CODE_SESSION_ID=ff764e01-0d7d-521a-9ba1-bca1dcb19ba1"],"client":"claude","session":"ff764e01-0d7d-521a-9ba1-bca1dcb19ba1"},"keys":["lib/sue.py","inode:999999999-14"],"modes":"ww","token":1735689805000001,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(84,1735689805000000,1735689805000001,'damage',1,'{"id":"0c120d42","by":"claude:37baa949","by_key":"@claude/37baa949-a24f-5053-ae74-51aaca6ac639/","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo app/sue.py); python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))''…","files":[{"path":"app/sue.py","owner":"claude:ff764e01","owner_key":"@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/","before":"273e36e1e21202bf7d464d519c250643","was":"file","mode":420,"after":"92e2f2c47fb070123c0e89f1f20ec353","kept":true,"number":0},{"path":"lib/sue.py","owner":"claude:ff764e01","owner_key":"@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/","before":"273e36e1e21202bf7d464d519c250643","was":"file","mode":420,"after":"92e2f2c47fb070123c0e89f1f20ec353","kept":true,"number":1}],"note":"damaged:0c120d42"}');
INSERT INTO "events" VALUES(85,1735689805000000,1735689805000001,'damage_to_be_told',1,'{"id":"0c120d42","by":"claude:37baa949","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo app/sue.py); python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))''…","paths":["app/sue.py","lib/sue.py"],"note":"damage-for:@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/:0c120d42"}');
INSERT INTO "events" VALUES(86,1735689805000000,1735689805000001,'damage_undone',1,'{"id":"0c120d42","by":"claude:37baa949","by_key":"@claude/37baa949-a24f-5053-ae74-51aaca6ac639/","command":"python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))'' $(echo app/sue.py); python3 -c ''import sys; open(sys.argv[1], ''\"''\"''a''\"''\"'').write(''\"''\"''sneaky''\"''\"'' + chr(10))''…","files":[{"path":"lib/sue.py","owner":"claude:ff764e01","owner_key":"@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/","before":"273e36e1e21202bf7d464d519c250643","was":"file","mode":420,"after":"92e2f2c47fb070123c0e89f1f20ec353","kept":true,"number":1}],"restored":["app/sue.py"],"note":"damaged:0c120d42"}');
INSERT INTO "events" VALUES(87,1735689805000000,1735689805000002,'lock_acquired',1,'{"id":"01a1ea73-4802-7221-8747-1d891f0be758","holder":{"id":"claude:a7b39f07","key":"@claude/a7b39f07-6830-545e-9038-a8c9192f5a50/","witness":["golden-host","golden-boot","4026531836",5011,111],"marks":["CLAUDE_CODE_SESSION_ID=a7b39f07-6830-545e-9038-a8c9192f5a50"],"client":"claude","session":"a7b39f07-6830-545e-9038-a8c9192f5a50"},"keys":["lib/lee.py"],"modes":"w","token":1735689805000002,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(88,1735689810000000,1735689805000002,'agent_calls',1,'{"agent":"claude:4888487c","parent":"@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/","note":"family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-480a-7a76-8531-5ac3b05b491b"}');
INSERT INTO "events" VALUES(89,1735689810000000,1735689810000000,'lock_acquired',1,'{"id":"01a1ea73-480e-7900-82cf-10195fe117a6","holder":{"id":"claude:a7b39f07","key":"@claude/a7b39f07-f54a-5a19-bd34-cb9bceafc7dd/","witness":["golden-host","golden-boot","4026531836",5008,108],"marks":["CLAUDE_CODE_SESSION_ID=a7b39f07-f54a-5a19-bd34-cb9bceafc7dd"],"client":"claude","session":"a7b39f07-f54a-5a19-bd34-cb9bceafc7dd"},"keys":["app/fay.py","inode:999999999-17"],"modes":"ww","token":1735689810000000,"ttl":null,"reason":"edit"}');
INSERT INTO "events" VALUES(90,1735689810000000,1735689810000000,'lock_renewed',1,'{"grant":"01a1ea73-480e-7900-82cf-10195fe117a6","holder":"claude:a7b39f07","expires_at":null,"idle_at":1735689840000000,"slept":0}');
INSERT INTO "events" VALUES(91,1735689810000000,1735689810000000,'agent_resting',1,'{"agent":"claude:a7b39f07","seconds":30.0,"note":"gate:@claude/a7b39f07-f54a-5a19-bd34-cb9bceafc7dd/:rest"}');
CREATE TABLE live (              -- a row for each key of a grant, and one for itself:
    key text not null,           -- "grant:" and its id
    grant_id text not null,
    mode text not null,          -- there: the holder's key
    seq integer,                 -- and the event that says the rest, and the limits
    expires_at integer, idle_at integer, slept integer,
    inode text,                  -- of a file, for those who ask for it by another name
    primary key (key, grant_id)
) without rowid;
INSERT INTO "live" VALUES('README.md','01a1ea73-451e-7bc6-8b66-2618b2292bd7','w',NULL,NULL,NULL,NULL,'inode:999999999-7');
INSERT INTO "live" VALUES('app/cox.py','01a1ea73-4568-7dce-8fe2-d5de0fef2991','w',NULL,NULL,NULL,NULL,'inode:999999999-10');
INSERT INTO "live" VALUES('app/dan.py','01a1ea73-4464-726a-8884-d56e91448b3b','w',NULL,NULL,NULL,NULL,'inode:999999999-3');
INSERT INTO "live" VALUES('app/fay.py','01a1ea73-480e-7900-82cf-10195fe117a6','w',NULL,NULL,NULL,NULL,'inode:999999999-17');
INSERT INTO "live" VALUES('app/kim.py','01a1ea73-4480-76c2-8d23-0f2858c4663e','w',NULL,NULL,NULL,NULL,'inode:999999999-4');
INSERT INTO "live" VALUES('app/mia.py','01a1ea73-457a-7325-8991-10bc4193e947','w',NULL,NULL,NULL,NULL,'inode:999999999-12');
INSERT INTO "live" VALUES('app/sue.py','01a1ea73-46ca-7af8-8333-376488e81dae','w',NULL,NULL,NULL,NULL,'inode:999999999-13');
INSERT INTO "live" VALUES('app/x.py','01a1ea73-4433-78e7-8995-9337f1e6f96f','w',NULL,NULL,NULL,NULL,'inode:999999999-1');
INSERT INTO "live" VALUES('app/z.py','01a1ea73-44d9-7e44-8aec-72a8a0af8829','w',NULL,NULL,NULL,NULL,'inode:999999999-6');
INSERT INTO "live" VALUES('grant:01a1ea73-4433-78e7-8995-9337f1e6f96f','01a1ea73-4433-78e7-8995-9337f1e6f96f','@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/',1,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-444d-7f85-8889-34ae3e6f8353','01a1ea73-444d-7f85-8889-34ae3e6f8353','@claude/f0814790-fc20-5175-9fe2-114b23521c75/',2,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4464-726a-8884-d56e91448b3b','01a1ea73-4464-726a-8884-d56e91448b3b','@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/',3,NULL,1735689810000000,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4480-76c2-8d23-0f2858c4663e','01a1ea73-4480-76c2-8d23-0f2858c4663e','@claude/40084ead-24d6-5053-911e-c8030b259dfd/',4,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-44d9-7e44-8aec-72a8a0af8829','01a1ea73-44d9-7e44-8aec-72a8a0af8829','@claude/40084ead-24d6-5053-911e-c8030b259dfd/',42,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-451e-7bc6-8b66-2618b2292bd7','01a1ea73-451e-7bc6-8b66-2618b2292bd7','@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002',45,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4542-7e95-84f5-b2bb7b11d033','01a1ea73-4542-7e95-84f5-b2bb7b11d033','@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002',51,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4553-7762-84b3-f66b2a28fd11','01a1ea73-4553-7762-84b3-f66b2a28fd11','@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004',56,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4568-7dce-8fe2-d5de0fef2991','01a1ea73-4568-7dce-8fe2-d5de0fef2991','@codex/f3da0afe-ddfd-5367-9653-73ab7c3869ff/',63,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-457a-7325-8991-10bc4193e947','01a1ea73-457a-7325-8991-10bc4193e947','@claude/64d456c3-518d-50db-848a-78957107dcbc/',72,1735689990000000,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-46ca-7af8-8333-376488e81dae','01a1ea73-46ca-7af8-8333-376488e81dae','@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/',82,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-473d-715b-83e7-c5d78721af29','01a1ea73-473d-715b-83e7-c5d78721af29','@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/',83,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-4802-7221-8747-1d891f0be758','01a1ea73-4802-7221-8747-1d891f0be758','@claude/a7b39f07-6830-545e-9038-a8c9192f5a50/',87,NULL,NULL,0,NULL);
INSERT INTO "live" VALUES('grant:01a1ea73-480e-7900-82cf-10195fe117a6','01a1ea73-480e-7900-82cf-10195fe117a6','@claude/a7b39f07-f54a-5a19-bd34-cb9bceafc7dd/',89,NULL,1735689840000000,0,NULL);
INSERT INTO "live" VALUES('grant:@claude/40084ead-24d6-5053-911e-c8030b259dfd/','01a1ea73-4480-76c2-8d23-0f2858c4663e','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/40084ead-24d6-5053-911e-c8030b259dfd/','01a1ea73-44d9-7e44-8aec-72a8a0af8829','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002','01a1ea73-451e-7bc6-8b66-2618b2292bd7','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000002','01a1ea73-4542-7e95-84f5-b2bb7b11d033','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004','01a1ea73-4553-7762-84b3-f66b2a28fd11','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/64d456c3-518d-50db-848a-78957107dcbc/','01a1ea73-457a-7325-8991-10bc4193e947','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/','01a1ea73-4464-726a-8884-d56e91448b3b','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/','01a1ea73-4433-78e7-8995-9337f1e6f96f','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/a7b39f07-6830-545e-9038-a8c9192f5a50/','01a1ea73-4802-7221-8747-1d891f0be758','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/a7b39f07-f54a-5a19-bd34-cb9bceafc7dd/','01a1ea73-480e-7900-82cf-10195fe117a6','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/f0814790-fc20-5175-9fe2-114b23521c75/','01a1ea73-444d-7f85-8889-34ae3e6f8353','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/','01a1ea73-46ca-7af8-8333-376488e81dae','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/','01a1ea73-473d-715b-83e7-c5d78721af29','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('grant:@codex/f3da0afe-ddfd-5367-9653-73ab7c3869ff/','01a1ea73-4568-7dce-8fe2-d5de0fef2991','@',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('lib/grand.py','01a1ea73-4542-7e95-84f5-b2bb7b11d033','w',NULL,NULL,NULL,NULL,'inode:999999999-8');
INSERT INTO "live" VALUES('lib/lee.py','01a1ea73-4802-7221-8747-1d891f0be758','w',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('lib/new.py','01a1ea73-4553-7762-84b3-f66b2a28fd11','w',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "live" VALUES('lib/sue.py','01a1ea73-473d-715b-83e7-c5d78721af29','w',NULL,NULL,NULL,NULL,'inode:999999999-14');
INSERT INTO "live" VALUES('lib/y.py','01a1ea73-444d-7f85-8889-34ae3e6f8353','w',NULL,NULL,NULL,NULL,'inode:999999999-2');
CREATE TABLE lost (              -- grants that were not given back, and the event that ended them
    id text primary key, seq integer not null
) without rowid;
INSERT INTO "lost" VALUES('01a1ea73-453a-71e8-807e-90034375cbd0',50);
CREATE TABLE notes (             -- the last word on something: which event said it
    name text primary key, seq integer not null
) without rowid;
INSERT INTO "notes" VALUES('damage-for:@claude/8a0baa4d-de92-5039-be21-5ec640cd9740/:d9f91a08',81);
INSERT INTO "notes" VALUES('damage-for:@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/:ae197ea1',78);
INSERT INTO "notes" VALUES('damage-for:@claude/f0814790-fc20-5175-9fe2-114b23521c75/:d9f91a08',80);
INSERT INTO "notes" VALUES('damage-for:@claude/ff764e01-0d7d-521a-9ba1-bca1dcb19ba1/:0c120d42',85);
INSERT INTO "notes" VALUES('damaged:0c120d42',86);
INSERT INTO "notes" VALUES('damaged:ae197ea1',77);
INSERT INTO "notes" VALUES('damaged:d9f91a08',79);
INSERT INTO "notes" VALUES('family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:call:01a1ea73-480a-7a76-8531-5ac3b05b491b',88);
INSERT INTO "notes" VALUES('family:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/:child:@claude/4888487c-e87d-589e-934d-1d7b0726ac3d/a0000000000000004',55);
INSERT INTO "notes" VALUES('gate:@claude/3450ed7e-08bb-57a4-bf04-c9b165a9de01/:retry:01a1ea73-4585-7fba-86b6-2a5bed889e3b',76);
INSERT INTO "notes" VALUES('gate:@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001:blocked:01a1ea73-44b5-7158-88bd-bcc5616ab34d',38);
INSERT INTO "notes" VALUES('gate:@claude/56790952-7dc5-5a7b-a896-6b40fa7eb728/:retry:01a1ea73-449a-7bdb-89ee-213f99b41c59',7);
INSERT INTO "notes" VALUES('gate:@claude/64d456c3-518d-50db-848a-78957107dcbc/:retry:01a1ea73-457a-7325-8991-10bc4193e947',70);
INSERT INTO "notes" VALUES('gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:blocked:01a1ea73-44a3-7265-8a80-2a0efe015a75',26);
INSERT INTO "notes" VALUES('gate:@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/:rest',28);
INSERT INTO "notes" VALUES('gate:@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/:retry:01a1ea73-455f-7ee9-8f64-b3d4e743ab33',62);
INSERT INTO "notes" VALUES('gate:@claude/a7b39f07-f54a-5a19-bd34-cb9bceafc7dd/:rest',91);
INSERT INTO "notes" VALUES('gate:@claude/f0814790-fc20-5175-9fe2-114b23521c75/:retry:01a1ea73-4559-7d67-87f6-0befecc5819c',59);
INSERT INTO "notes" VALUES('gate:@codex/d8437b03-e9a8-573e-98df-c29824383722/:retry:01a1ea73-456e-7974-8ccd-e344070eaca9',66);
CREATE TABLE repeats (           -- events that said the same again instead of being written again
    once text primary key, seq integer not null, count integer not null, last_at integer not null
) without rowid;
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/3450ed7e-08bb-57a4-bf04-c9b165a9de01/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59
01a1ea73-4559-7d67-87f6-0befecc5819c',74,0,1735689805000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/40084ead-24d6-5053-911e-c8030b259dfd/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59
01a1ea73-44a3-7265-8a80-2a0efe015a75',13,0,1735689600000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/40084ead-24d6-5053-911e-c8030b259dfd/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59
01a1ea73-44b5-7158-88bd-bcc5616ab34d',30,0,1735689780000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59',36,0,1735689780000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5/a0000000000000001
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59
01a1ea73-44a3-7265-8a80-2a0efe015a75
01a1ea73-44aa-7161-8714-f39f2a60513f',19,0,1735689600000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/56790952-7dc5-5a7b-a896-6b40fa7eb728/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f',5,0,1735689600000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/64d456c3-518d-50db-848a-78957107dcbc/
ww
app/mia.py
inode:999999999-12
01a1ea73-4574-7117-82c7-e34c25436b17',68,0,1735689800000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59',9,0,1735689600000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/96fae25f-6da1-59c5-9b0b-51f9e4de6006/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59
01a1ea73-44aa-7161-8714-f39f2a60513f
01a1ea73-44b5-7158-88bd-bcc5616ab34d',24,0,1735689780000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/
ww
lib/y.py
inode:999999999-9
01a1ea73-444d-7f85-8889-34ae3e6f8353',60,0,1735689800000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@claude/f0814790-fc20-5175-9fe2-114b23521c75/
ww
app/x.py
inode:999999999-5
01a1ea73-4433-78e7-8995-9337f1e6f96f
01a1ea73-449a-7bdb-89ee-213f99b41c59',57,0,1735689800000000);
INSERT INTO "repeats" VALUES('E_LOCK_CONFLICT
@codex/d8437b03-e9a8-573e-98df-c29824383722/
ww
app/cox.py
inode:999999999-10
01a1ea73-4568-7dce-8fe2-d5de0fef2991',64,0,1735689800000000);
INSERT INTO "repeats" VALUES('E_LOCK_CYCLE
@claude/9af06104-75a9-583b-9d61-8d3891e48bfa/
ww
lib/y.py
inode:999999999-9
01a1ea73-444d-7f85-8889-34ae3e6f8353',61,0,1735689800000000);
CREATE TABLE tickets (
    id text primary key,
    seq integer not null,
    holder_key text not null,
    rank integer not null,
    stirs_at integer not null,
    ripe_at integer not null,
    reserved integer not null,
    wake text not null
) without rowid;
INSERT INTO "tickets" VALUES('01a1ea73-449a-7bdb-89ee-213f99b41c59',6,'@claude/56790952-7dc5-5a7b-a896-6b40fa7eb728/',-4611686018427387898,1735689600000000,0,1,'');
INSERT INTO "tickets" VALUES('01a1ea73-4559-7d67-87f6-0befecc5819c',58,'@claude/f0814790-fc20-5175-9fe2-114b23521c75/',-4611686018427387846,1735689800000000,0,1,'');
INSERT INTO "tickets" VALUES('01a1ea73-456e-7974-8ccd-e344070eaca9',65,'@codex/d8437b03-e9a8-573e-98df-c29824383722/',65,1735689800000000,1735689800000000,0,'');
INSERT INTO "tickets" VALUES('01a1ea73-4585-7fba-86b6-2a5bed889e3b',75,'@claude/3450ed7e-08bb-57a4-bf04-c9b165a9de01/',75,1735689805000000,1735689805000000,0,'wake-w22281-2416bf499924');
CREATE TABLE wants (
    key text not null, ticket_id text not null,
    primary key (key, ticket_id)
) without rowid;
INSERT INTO "wants" VALUES('app/cox.py','01a1ea73-456e-7974-8ccd-e344070eaca9');
INSERT INTO "wants" VALUES('app/x.py','01a1ea73-449a-7bdb-89ee-213f99b41c59');
INSERT INTO "wants" VALUES('app/x.py','01a1ea73-4559-7d67-87f6-0befecc5819c');
INSERT INTO "wants" VALUES('app/x.py','01a1ea73-4585-7fba-86b6-2a5bed889e3b');
INSERT INTO "wants" VALUES('inode:999999999-10','01a1ea73-456e-7974-8ccd-e344070eaca9');
INSERT INTO "wants" VALUES('inode:999999999-5','01a1ea73-449a-7bdb-89ee-213f99b41c59');
INSERT INTO "wants" VALUES('inode:999999999-5','01a1ea73-4559-7d67-87f6-0befecc5819c');
INSERT INTO "wants" VALUES('inode:999999999-5','01a1ea73-4585-7fba-86b6-2a5bed889e3b');
CREATE INDEX repeats_by_seq on repeats (seq);
CREATE INDEX tickets_by_holder on tickets (holder_key);
CREATE INDEX tickets_by_stirring on tickets (stirs_at);
COMMIT;
