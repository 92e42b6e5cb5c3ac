import struct
import sass_order as O
def patch(blob, every, stall=None, yld=True):
    blob=bytearray(blob)
    for name,off,size in list(O.sections(bytes(blob))):
        if not name.startswith('.text.'): continue
        ins=[O.Ins(*struct.unpack_from('<QQ',blob,off+i*16)) for i in range(size//16)]
        for s,e in O.blocks(ins):
            if sum(x.plain for x in ins[s:e])<64: continue
            n=0
            for i in range(s,e):
                x=ins[i]
                if x.plain:
                    n+=1
                    if n%every==0:
                        c=x.ctrl
                        if yld: c&=~0x10
                        if stall: c=(c&~15)|max(stall,c&15)
                        # no reuse over the switch
                        hi=x.hi & ~(0x1FFFFF<<41) | c<<41
                        struct.pack_into('<QQ',blob,off+i*16,x.lo,hi)
    return bytes(blob)
