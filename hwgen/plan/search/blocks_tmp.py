from functools import lru_cache
@lru_cache(maxsize=None)
def _rows(units:int,width:int)->float:
    if units<=0: return 0.0
    best=1e18
    for k,bits in enumerate((36,18,9,4,2,1)):
        size=1<<k
        cost=0.5*-(-width//bits)
        n=max(1,units//size) 
        c=cost*n+_rows(units-n*size,width)
        best=min(best,c)
    return best
def bram36(depth,width): return _rows(-(-depth//512),width)
def luts(depth,width):
    if depth<=32: return -(-width//6)*4
    d=-(-depth//64)
    return d*(-(-width//3)*4)+ (width*((d+3)//4) if d>1 else 0)
def uram(depth,width): return max(1,-(-depth//4096))*-(-width//72)
