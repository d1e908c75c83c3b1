"""What is known about torch and the frameworks around it: data, not code.

The sources are torch's documentation and what torch 2.13 did when it was run.
"""

from __future__ import annotations

import re

# Top-level packages whose import says that a file is about PyTorch.
TORCH_LIBRARIES = frozenset(
    "torch torchvision torchaudio torchtext torchmetrics torch_geometric torchrl pytorch_lightning lightning "
    "lightning_fabric accelerate deepspeed fairseq ignite transformers diffusers timm monai apex functorch higher "
    "learn2learn gpytorch pyro botorch kornia fastai mmcv mmengine skorch catalyst dgl torch_xla peft trl".split()
)
# A file that imports one of these, and none of those above, handles other tensors.
OTHER_LIBRARIES = frozenset(
    "tensorflow keras jax flax haiku optax paddle mxnet mindspore jittor oneflow megengine chainer mlx dynet theano "
    "cntk tinygrad".split()
)

# What everybody calls torch and its parts.
USUAL_NAMES = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"}

# --- methods of tensors -----------------------------------------------------------------------------------------

# What is written after a tensor to have its numbers without their graph.
CUTS = frozenset("detach data item numpy tolist".split())
# The result has no graph.
BREAKING_METHODS = frozenset(
    "item tolist detach numpy argmax argmin argsort long int short byte bool size dim numel ndimension nelement "
    "eq ne lt le gt ge equal allclose isclose isnan isinf isfinite any all nonzero count_nonzero element_size "
    "data_ptr get_device is_floating_point bincount histc unique unique_consecutive "
    "stride storage untyped_storage is_contiguous to_bytes __len__ multinomial bernoulli".split()
)
# Of these, and of the functions below, what gives whole numbers or truth values of the numbers of a tensor.
CHOOSING = frozenset(
    "argmax argmin argsort long int short byte bool eq ne lt le gt ge isclose nonzero count_nonzero one_hot "
    "logical_and logical_or logical_not logical_xor searchsorted bucketize".split()
)
# By these, and by `@`, whole numbers say which rows of a table are taken, or added up.
PICKING = frozenset(
    "@ matmul mm bmm mv dot einsum tensordot linear bilinear embedding embedding_bag index_select gather take "
    "take_along_dim where masked_select addmm baddbmm".split()
)
# The result carries the graph of the receiver and of tensor arguments.
DIFFERENTIABLE_METHODS = frozenset(
    "abs add addmm addmv baddbmm bmm mm mv matmul mul multiply div divide sub subtract pow sqrt rsqrt exp log log2 "
    "log10 log1p sin cos tan tanh sigmoid softmax log_softmax relu clamp clip clamp_min clamp_max neg sign round "
    "floor ceil mean sum prod std var norm max min amax amin median mode logsumexp cumsum cumprod sort topk kthvalue "
    "view view_as reshape reshape_as flatten unflatten squeeze unsqueeze permute transpose t T expand expand_as "
    "repeat repeat_interleave narrow select index_select gather masked_select masked_fill where take chunk split "
    "unbind diagonal diag triu tril flip roll contiguous clone cpu cuda to float double half bfloat16 type type_as "
    "cat stack dot outer cross dist lerp square reciprocal erf softplus trace det logdet inverse unfold fold scatter "
    "scatter_add index_add index_copy index_fill index_put masked_scatter swapaxes movedim nan_to_num tile logaddexp "
    "mH mT atan2 hypot log_prob rsample entropy renorm pin_memory requires_grad_ retain_grad as_strided absolute acos "
    "acosh addbmm addcdiv addcmul addr adjoint aminmax angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
    "asin asinh atan atanh broadcast_to cdouble cfloat chalf cholesky cholesky_inverse cholesky_solve copysign "
    "corrcoef cosh cov cummax cummin deg2rad dequantize diag_embed diagflat diagonal_scatter diff digamma erfc erfinv "
    "exp2 expm1 fliplr flipud float_power fmax fmin fmod frac frexp hardshrink hsplit dsplit i0 igamma igammac "
    "inner istft kron ldexp lgamma logaddexp2 logcumsumexp logit lu matrix_exp matrix_power maximum minimum moveaxis "
    "msort mvlgamma nanmean nanmedian nanquantile nansum narrow_copy negative pinverse polygamma prelu qr quantile "
    "rad2deg ravel remainder rot90 select_scatter sgn sinc sinh slice_scatter slogdet stft sum_to_size svd swapdims "
    "take_along_dim tensor_split to_dense to_sparse to_sparse_coo to_sparse_csr triangular_solve true_divide trunc "
    "vsplit xlogy".split()
)
# More graphs than this in a bounded buffer are as good as unbounded.
LONG_BUFFER = 1000
LONG_BUFFER_NAME = re.compile(r"capacity|buffer_?size|memory|replay", re.I)
# What prepares the input of a model: it has no parameters, and what it returns no graph.
PREPARING_CLASS = re.compile(r"Tokenizer|Processor|FeatureExtractor")
PREPARING_NAME = re.compile(r"tokeni[sz]er\w*$", re.I)

# In-place methods that fill a tensor with numbers: it is what it was, and is given back.
FILLING_METHODS = frozenset(
    "zero_ fill_ uniform_ normal_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ clamp_ abs_ "
    "neg_".split()
)
# In-place methods: the receiver takes on the graph of the arguments.
INPLACE_GRAPH_METHODS = frozenset(
    "add_ sub_ mul_ div_ copy_ index_add_ index_copy_ index_put_ masked_fill_ masked_scatter_ scatter_ scatter_add_ "
    "lerp_ addcmul_ addcdiv_ baddbmm_ addmm_ addmv_ pow_ set_ put_".split()
)
# In-place methods that make a gradient of zeros another one, and functions that do so with a list of them.
GRADIENT_SETTING_METHODS = (INPLACE_GRAPH_METHODS | {"normal_", "uniform_", "fill_"}) - {"mul_", "div_", "pow_"}
GRADIENT_SETTING_FUNCTION = re.compile(r"^torch\._foreach_(?:copy|add|sub|lerp|addcmul|addcdiv)_$")
# The call that stands for gradients set by hand, whatever does it: ``p.grad = g``, ``p.grad.copy_(g)``.
SETTING_GRADIENTS = "set gradients"
# In-place methods that leave the receiver without a graph. (zero_ and fill_ do not: what was there stays behind it.)
RESETTING_METHODS = frozenset(("detach_",))
# Methods that look only at the shape, type or device of their arguments.
SHAPING_METHODS = frozenset(
    "to type_as view_as expand_as reshape_as view reshape expand repeat permute transpose flatten unflatten squeeze "
    "unsqueeze chunk split narrow select type cuda cpu".split()
)
BREAKING_ATTRIBUTES = frozenset(
    "data shape dtype device ndim grad requires_grad is_leaf grad_fn names layout itemsize nbytes is_cuda".split()
)
# Results whose second part holds indices: the part at 1 has no graph.
INDEXED_RESULTS = frozenset("max min sort topk kthvalue median nanmedian mode cummax cummin".split())

# These give several tensors, also where they are given nothing else.
SEVERAL_RESULTS = frozenset(
    "sort topk kthvalue mode cummax cummin svd qr eig eigh symeig slogdet lu lu_factor geqrf lstsq triangular_solve "
    "std_mean var_mean aminmax frexp histogram".split()
)
# Tensors of whole numbers or truth values, whatever goes in.
WHOLE_RESULTS = frozenset(
    "argmax argmin argsort nonzero count_nonzero randperm randint searchsorted bucketize long int short byte bool eq "
    "ne lt le gt ge isnan isinf isfinite isclose logical_and logical_or logical_not logical_xor any all tril_indices "
    "triu_indices multinomial LongTensor IntTensor BoolTensor ByteTensor len size numel dim range isin".split()
)
# The result has the dtype of what it is made of.
SAME_DTYPE = frozenset(
    "unsqueeze squeeze view view_as reshape reshape_as flatten unflatten clone detach contiguous cpu cuda expand "
    "expand_as repeat repeat_interleave permute transpose t index_select gather masked_select masked_fill take narrow "
    "select sum prod cumsum max min amax amin clamp abs neg flip roll unique unbind chunk split diff new_tensor "
    "new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like scatter scatter_ "
    "fill_ zero_ clamp_ add_ sub_ mul_ requires_grad_ tril triu sort topk".split()
)
WHOLE_DTYPES = frozenset("long int short bool uint8 int8 int16 int32 int64 bool_".split())
OTHER_DTYPES = frozenset("float double half bfloat16 float16 float32 float64 cfloat complex64 complex128".split())
# Their argument is an index.
TAKING_INDICES = frozenset(
    "gather index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ scatter scatter_ "
    "scatter_add scatter_add_".split()
)
COMPARING = frozenset(("==", "!=", "<", ">", "<=", ">=", "in", "not in", "is", "is not", "not"))
# They give several where they are asked for it.
SEVERAL_IF_ASKED = frozenset("return_inverse return_counts as_tuple return_indices".split())

# The result is a view of the receiver's storage (or may be).
VIEWING_METHODS = frozenset(
    "detach view view_as reshape reshape_as squeeze unsqueeze permute transpose t T expand expand_as narrow select "
    "chunk split unbind flatten unflatten swapaxes movedim diagonal unfold as_strided numpy "
    "requires_grad_".split()
)
# The result has the receiver's numbers, some of them, or each several times.
REARRANGING = VIEWING_METHODS | frozenset(
    "clone contiguous index_select gather repeat repeat_interleave flip roll to".split()
)
# Methods that other objects have as well: distributions, batches of tokens.
NOT_ONLY_OF_TENSORS = frozenset("log_prob rsample entropy to cuda cpu type mean sample where cat".split())
# The result is on another device, of another type or in another order, if that differs from what the receiver has.
MOVING_METHODS = frozenset("contiguous to cuda cpu type type_as float double half bfloat16".split())
# Of these, those that leave a tensor on its device.
KEEPING_DEVICE = MOVING_METHODS - frozenset(("to", "cuda", "cpu"))
# What variables are called that stand for a device other than the host.
DEVICE_NAME = re.compile(r"^(?!.*cpu).*(?:\bdev(?:s|ice|_?ids?|_\w*|\b)|device|cuda|gpu|rank)", re.I)
# Methods that nothing but a tensor has.
ONLY_OF_TENSORS = frozenset("chunk narrow unsqueeze permute softmax log_softmax sigmoid unbind requires_grad_".split())
# What graphs and pictures are called in PyTorch Geometric and Transformers: always tensors, where they can be hashed.
TENSOR_NAMES = frozenset("edge_index edge_attr edge_weight attention_mask pixel_values".split())
# Methods of texts, dicts, tensors and arrays: where one is called, it is not asked what class the object has.
_OF_TEXTS = frozenset("startswith endswith split rsplit splitlines strip lstrip rstrip lower upper items keys".split())
_OF_ARRAYS = frozenset("size dim clone detach numpy tolist new_zeros new_ones masked_fill astype".split())
OF_PLAIN_DATA = ONLY_OF_TENSORS | VIEWING_METHODS | _OF_TEXTS | _OF_ARRAYS
# Functions that keep the size of what they are given.
SHAPE_KEEPING = frozenset(
    "softmax log_softmax sigmoid tanh relu exp log clamp float half double normalize dropout gelu elu silu leaky_relu "
    "softplus logsigmoid layer_norm clone abs absolute square sqrt rsqrt pow log2 log1p sin cos neg sign round clip "
    "clamp_min clamp_max erf reciprocal add sub subtract mul multiply div divide masked_fill nan_to_num flip "
    "roll".split()
)
# Operations whose graph needs saved tensors, so that it cannot be used twice.
SAVING = frozenset(
    "pow exp log sqrt sigmoid tanh softmax log_softmax relu matmul mm bmm mv norm std var logsumexp square "
    "cross_entropy mse_loss nll_loss binary_cross_entropy binary_cross_entropy_with_logits l1_loss smooth_l1_loss "
    "linear conv1d conv2d conv3d cosine_similarity".split()
)
# What annotations are made of that name no class of the project.
PLAIN_TYPES = frozenset(
    "int float str bool bytes None Optional Union list List dict Dict tuple Tuple set Set Sequence Iterable Mapping "
    "typing torch np numpy Tensor FloatTensor LongTensor IntTensor BoolTensor device dtype Size ndarray Path".split()
)
TENSOR_TYPES = frozenset("torch.Tensor torch.FloatTensor torch.LongTensor torch.autograd.Variable".split())

# --- functions --------------------------------------------------------------------------------------------------

TENSOR_PREFIXES = ("torch.", "torchvision.", "torch_geometric.", "torch_scatter.", "einops.", "kornia.", "opt_einsum.")
NUMBER_PREFIXES = (
    "numpy.", "math.", "sklearn.", "scipy.", "pandas.", "random.", "time.", "os.", "json.", "yaml.", "tomllib.", "cv2.",
)  # fmt: skip
NUMERIC_PACKAGES = frozenset("numpy scipy sympy casadi numba pandas sklearn statsmodels matplotlib seaborn".split())
# What calls them gives a tensor first: not a number, a size or a text.
GIVEN_TENSORS = (
    DIFFERENTIABLE_METHODS - frozenset(
        "add sub subtract mul multiply div divide true_divide pow float_power remainder polygamma xlogy".split()
    )
) | frozenset(
    "cdist pdist pairwise_distance cosine_similarity argmax argmin argsort argwhere nonzero count_nonzero unique "
    "unique_consecutive bincount searchsorted isnan isinf isfinite zeros_like ones_like rand_like randn_like "
    "empty_like full_like one_hot block_diag trapz trapezoid histc std_mean var_mean cartesian_prod "
    "combinations numel multinomial bernoulli poisson is_complex is_floating_point logical_not svd eig eigh eigvals "
    "eigvalsh inv solve lstsq matrix_norm vector_norm matrix_rank pinv fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn "
    "irfft irfft2 irfftn fftshift ifftshift normalize interpolate pad grid_sample affine_grid cross_entropy mse_loss "
    "l1_loss nll_loss kl_div smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits embedding "
    "linear conv1d conv2d conv3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d gelu elu silu leaky_relu dropout logsigmoid".split()
)  # fmt: skip
# Functions of these are meant.
TENSOR_NAMESPACES = frozenset(("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"))
# Of these the second is a tensor as well.
GIVEN_TWO_TENSORS = frozenset(
    "cdist matmul mm bmm mv dot inner outer kron pairwise_distance cosine_similarity cross".split()
)
# torch functions whose result has no graph (or is fresh data).
BREAKING_FUNCTIONS = frozenset(
    "detach argmax argmin argsort eq ne lt le gt ge equal allclose isclose isnan isinf isfinite any all nonzero "
    "count_nonzero bincount histc unique unique_consecutive tensor from_numpy randn rand randint randn_like rand_like "
    "randint_like randperm zeros ones full empty zeros_like ones_like full_like empty_like arange linspace eye "
    "logspace multinomial bernoulli normal one_hot numel is_tensor manual_seed seed save load device Size Generator "
    "logical_and logical_or logical_not logical_xor searchsorted bucketize get_rank get_world_size is_available "
    "no_grad enable_grad finfo iinfo meshgrid LongTensor FloatTensor Tensor IntTensor BoolTensor "
    "DoubleTensor HalfTensor ByteTensor zeros_ tril_indices triu_indices combinations memory_allocated "
    "max_memory_allocated synchronize empty_cache current_device device_count clip_grad_norm_ clip_grad_norm "
    "clip_grad_value_ add_scalar make_grid save_image to_pil_image".split()
)
# torch functions that create fresh data: a plain tensor, no graph.
CREATING_FUNCTIONS = frozenset(
    "zeros ones full empty randn rand randint zeros_like ones_like full_like empty_like randn_like rand_like tensor "
    "arange linspace eye from_numpy as_tensor Tensor FloatTensor LongTensor normal randperm".split()
)
# Of these, those that copy the numbers of other tensors.
# What NumPy computes of the shape of an array, of places in it, or by chance: not of its numbers.
OF_SHAPE = frozenset(
    "shape size ndim zeros_like ones_like empty_like full_like argmax argmin argsort argwhere nonzero flatnonzero "
    "where count_nonzero unique searchsorted digitize choice rand randn randint uniform normal permutation".split()
)
COPYING_FUNCTIONS = frozenset("tensor as_tensor Tensor FloatTensor".split())
FEW_IN_RECORDS = frozenset("name levelno levelname pathname filename module funcName lineno".split())
"""Attributes of a record of `logging` that tell where it was written, or how urgent it is: few in a program."""
# Builtins and logging that look at values and keep none.
HARMLESS_BUILTINS = frozenset(
    "print len float int bool str repr isinstance hasattr type id format round range hash callable issubclass "
    "input open exit quit vars dir ascii bin hex complex".split()
)
PASSING_BUILTINS = frozenset(
    "list tuple set dict sum max min sorted reversed iter next zip enumerate map filter abs getattr".split()
)
LOGGING_RECEIVERS = re.compile(
    r"(?:^|[._])(?:logs?|(?:logger|logging|wandb|writer|tb|tensorboard|tqdm|pbar|bar|progress|progress_bar|console|"
    r"summary|summary_writer|summarywriter|tb_writer|tblogger|loop|mlflow|neptune|comet|experiment|print)"
    r"(?:s|\d+|_\w+)?)$",
    re.I,
)
LOGGING_METHODS = frozenset(
    "info debug warning warn error exception critical add_scalar add_scalars add_histogram add_image add_text "
    "set_postfix set_postfix_str set_description set_description_str log_metric log_metrics write".split()
)
# A loss function's second argument is data, not something that is trained.
TARGET_ARGUMENTS = frozenset("target targets label labels y weight".split())
# Names of callables that compute a loss from tensors, differentiably.
LOSS_CALLABLE = re.compile(
    r"(?:^|[._])(?:\w*_)?(?:criterion|criterions|loss|losses|loss_?fn|loss_?func\w*|lossfn|objective|crit(?!ic))\w*$",
    re.I,
)
LOSS_NAME = re.compile(r"loss|cost|nll|^err|objective|penalty|energy|kl|elbo|bce|mse|ce$|reg", re.I)
# Names of what a command line or a configuration file says.
SETTINGS_NAME = re.compile(
    r"^(?:args?|opts?|options|flags|cfgs?|conf|configs?|hparams|hps|hyper_?params|settings)$", re.I
)
# Names that one gives to a count, a measure or an index among the things that a call returns.
NUMBER_NAME = re.compile(
    r"^(?:n|n_\w+|num\w*|\w+_num|\w*counts?|\w*acc|\w*accuracy|\w*accuracies|(?:n_)?correct\w*|hits?|\w*_ids?|ids?|idx\w*|"
    r"\w*ind(?:ex|exes|ices)|\w*masks?|\w*lens?|\w*lengths?|\w*sizes?|\w*samples|\w*labels?|\w*tokens|steps?|lr|meta|infos?|\w*stats?|statistics|\w*metrics?|logs?|extras?|measures?)$",
    re.I,
)
# Names of results that carry a graph where a model returns its loss and more.
LOSS_RESULT = re.compile(
    r"loss(?!_?(?:scales?|weights?|hist\w*|names?|masks?|stats?|counts?|items|infos?|logs?|fn|func\w*)$)|cost$|objective|elbo",
    re.I,
)
OUTPUT_RESULT = re.compile(
    r"out|logit|pred|hidden|state|feat|embed|hyp|prob|score|y_?hat|recon|latent|repr|mu$|logvar|^z|^h\d*$|^x|^y|action|value",
    re.I,
)
# Keys under which a model reports how well it does.
MEASURE_KEY = re.compile(
    r"reward|acc|metric|stat|correct|count|num_|n_|(?:^|_)(?:ids?|idx|index|indices|labels?)$", re.I
)
# A class that cannot be read, called on something: most often it holds what it is given.
RECORD_NAME = re.compile(r"^[A-Z][a-z]+(?:[A-Z][a-z0-9]+)*$")
MEASURING_CALLABLE = re.compile(
    r"accuracy|acc$|metric|score|error_rate|iou|dice_coef|psnr|ssim|auc|bleu|precision|recall", re.I
)
# Measures that give one number, or one for each class.
MEASURE_OF_CLASSES = re.compile(
    r"(?:^|\.)(?:\w+_)?(?:accuracy|precision|recall|f1|f1_score|fbeta_score|sensitivity|specificity)$", re.I
)

# --- containers -------------------------------------------------------------------------------------------------

ADDING_METHODS = frozenset(
    "append extend add insert appendleft extendleft update push put put_nowait setdefault".split()
)
MAPPING_METHODS = frozenset("items values keys get append extend update pop clear setdefault push add".split())
CLEARING_METHODS = frozenset("clear pop popleft popitem".split())
# They go over all of a generator, and keep what it gives until they are done or longer.
DRAINING = frozenset("list tuple set sorted sum".split())
CONTAINER_BUILTINS = frozenset("list dict set deque defaultdict OrderedDict Counter".split())

# --- modules and optimizers -------------------------------------------------------------------------------------

MODULE_PREFIXES = ("torch.nn.", "torchvision.models.", "timm.", "segmentation_models_pytorch.", "torch_geometric.nn.")
# Functions of torch that run the module that they are given.
RUNNING_MODULES = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
# Modules of torch.nn that return more than one tensor, or whatever is in them returns.
STRUCTURED_MODULES = frozenset(
    "RNN LSTM GRU LSTMCell MultiheadAttention AdaptiveLogSoftmaxWithLoss ModuleList ModuleDict Module DataParallel "
    "DistributedDataParallel FractionalMaxPool2d".split()
)
# Modules of torch.nn whose outputs, and the states that they return, are of one graph.
RECURRENT_MODULES = frozenset("RNN LSTM GRU LSTMCell GRUCell RNNCell".split())
# Modules of torch.nn without parameters: what they return has a graph only if what they are given has.
WITHOUT_PARAMETERS = frozenset(
    "from_pretrained "  # `nn.Embedding.from_pretrained(weights)`: they are frozen unless somebody asks for gradients
    "Softmax LogSoftmax Sigmoid Tanh ReLU LeakyReLU ELU GELU SiLU Softplus Identity Flatten Dropout MaxPool2d "
    "AvgPool2d AdaptiveAvgPool2d Upsample CosineSimilarity MaxPool1d MaxPool3d AvgPool1d AvgPool3d AdaptiveAvgPool1d "
    "AdaptiveMaxPool2d ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad2d "
    "ConstantPad1d ConstantPad2d ConstantPad3d UpsamplingBilinear2d UpsamplingNearest2d PixelShuffle PixelUnshuffle "
    "Unfold Fold PairwiseDistance Dropout2d Dropout3d Softmax2d Hardtanh ReLU6 Mish Unflatten".split()
)
MODULE_FUNCTIONS = frozenset(
    "DataParallel DistributedDataParallel DDP FullyShardedDataParallel compile create_model from_pretrained "
    "from_config script trace convert_sync_batchnorm".split()
)
# A function of torch.nn that is not a module.
NOT_MODULES = ("torch.nn.functional.", "torch.nn.init.", "torch.nn.utils.", "torch.nn.Parameter", "torch.nn.parameter.")
MODULE_BASES = frozenset(
    "torch.nn.Module torch.nn.Sequential torch.nn.ModuleList torch.jit.ScriptModule "
    "pytorch_lightning.LightningModule lightning.LightningModule lightning.pytorch.LightningModule "
    "transformers.PreTrainedModel".split()
)
MODULE_NAME = re.compile(
    r"(?:^|[._])(?:\w+_)?(?:model|net|network|netG|netD|net[A-Z]\w?|net_[gd]|generator|discriminator|encoder|decoder|backbone|"
    r"classifier|policy|policy_net|target_net|actor|critic|actor_critic|value_net|q_net|qnet|dqn|rnn|lstm|gru|"
    r"transformer|unet|resnet|vgg|bert|vae|gan|mlp|cnn|discriminator\w*|generator\w*|student|teacher|ddp_model|"
    r"G|D|G_\w+|D_\w+|gnn|gcn|autoencoder|predictor|regressor|embedder|cell|\w+cell|head|projector|embedding|potential)(?:_?\d+)?$"
)
# A method of a model that says what it makes is no output: a target, a mask, a sample.
PREPARES_NAME = re.compile(
    r"target|mask|label|sampl|prepar|preproc|noise|schedul|weight|num_|size|device|config|state|get_", re.I
)
# A name that says what is done, not what something is: `get_model`, `select_action_from_actor`.
VERB = re.compile(
    r"_*(?:select|get|sample|compute|choose|update|train|make|create|build|load|save|reset|set|run|add|sync|copy|freeze|"
    r"print|register|apply|define|parse|prepare|setup)_"
)
# Methods that go over what a module has, each with its name.
NAMING_METHODS = frozenset("named_parameters named_buffers named_modules named_children".split())
# Methods that go over what a module consists of.
PARTS = NAMING_METHODS | frozenset("parameters buffers modules children".split())
# Methods that only a module has.
MODULE_METHODS = frozenset(
    "parameters named_parameters eval train modules named_modules children named_children register_forward_hook "
    "register_forward_pre_hook register_full_backward_hook".split()
)
# Methods that only a tensor has: no `log`, `dist` or `inverse`, which models have as well.
TENSOR_METHODS = frozenset(
    "mean sum std var softmax log_softmax sigmoid tanh relu view reshape flatten squeeze unsqueeze permute transpose "
    "detach item argmax max min exp pow sqrt abs size dim numel clamp repeat expand gather index_select numpy tolist "
    "new_zeros unbind chunk".split()
)
ARITHMETIC = frozenset("+ - * / @ **".split())
# Methods of a module that return it.
FLUENT_METHODS = frozenset(
    "to cuda cpu half float double bfloat16 requires_grad_ share_memory apply eval train type".split()
)
OF_EVERY_MODULE = MODULE_METHODS | FLUENT_METHODS | {"forward", "load_state_dict", "state_dict", "zero_grad"}
OPTIMIZER_NAME = re.compile(
    r"(?:^|[._])(?:\w*optim\w*|opts?|opt_?[A-Za-z0-9]+|\w+_opt|\w+_opts|solver|sgd|adam|trainer_[A-Z])$", re.I
)
NOT_OPTIMIZER_NAME = re.compile(r"sched|option|env|lr_|args|opt_level|opts?\.", re.I)
SCALER_NAME = re.compile(r"(?:^|[._])(?:\w*scaler)$", re.I)
# Objects whose `.backward(loss)` takes the loss as an argument.
ENGINE_NAME = re.compile(
    r"(?:^|[._])(?:accelerator|fabric|engine|model_engine|booster|strategy|deepspeed\w*|ds_engine|\w*_engine|"
    r"optimizer\w*|opt|\w*scaler|amp|backend|runner|precision\w*|trainer)$",
    re.I,
)
# Engines that zero gradients in their own step.
SELF_ZEROING_NAME = re.compile(r"(?:^|[._])(?:engine|model_engine|\w*_engine|deepspeed\w*|booster)$", re.I)
LOADER_NAME = re.compile(
    r"(?:loader|dataloader|\bdl\b|_dl$|_dl_|batches|data_iter|iterator|train_iter|test_iter|generator$)", re.I
)
EVALUATION_LOADER = re.compile(
    r"(?:^|[._])(?:\w+_)?(?:val|valid|validation|test|testing|eval|evaluation|dev)(?:_?\w*)?(?:loader|dl|iter|iterator|data|set|batches|gen)\w*$",
    re.I,
)
EVALUATION_FUNCTION = re.compile(
    r"^_*(?:\w+_)?(?:eval|evaluate|evaluating|evaluation|validate|validation|valid|val|test|infer|inference|predict)"
    r"(?:_\w+)?$",
    re.I,
)
# Runs over all of its data at least once, where it is given something: `trainer.fit(net, loader)`.
TRAINING_FUNCTION = re.compile(r"^_*(?:fit|train)(?:_one)?(?:_(?:cycle|epochs?|loop|model|net|network))?$")
# Words of a function that may run with gradients or without them.
OF_GRADIENT_MODE = ("backward", "no_grad", "grad_enabled", "inference_mode")
ZEROING_NAME = re.compile(r"zero_?grad|clear_?grad|reset_?grad|grad_?zero|zero_the_grad", re.I)
STEPPING_NAME = re.compile(r"optimizer_step|optim_step|opt_step|step_optim", re.I)

# --- gradient mode ----------------------------------------------------------------------------------------------

NO_GRAD = frozenset(
    "torch.no_grad torch.inference_mode torch.autograd.no_grad torch.autograd.inference_mode "
    "torch.autograd.grad_mode.no_grad torch.autograd.grad_mode.inference_mode".split()
)
NO_GRAD_NAME = re.compile(r"no_?grad|inference_?mode|eval_?mode|evaluat|without_grad|disable_grad|freeze", re.I)
# Calls that need gradients of their own inside of an evaluation.
GRADIENT_SEEKING_NAME = re.compile(
    r"attack(?!\w*_action)|perturb|adversar|pgd|fgsm|saliency|grad_?cam|attribution|(?:^|\.)attribute$|explain", re.I
)
ENABLE_GRAD = frozenset(("torch.enable_grad", "torch.autograd.enable_grad", "torch.autograd.grad_mode.enable_grad"))
SET_GRAD = frozenset(
    ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
)

# --- frameworks that own part of the loop -----------------------------------------------------------------------

# Called by the framework once per batch, with gradients.
PER_STEP_METHODS = frozenset("training_step train_step compute_loss".split())
# Run by a trainer after each step or epoch, among the methods of callbacks.
CALLBACK_METHOD = re.compile(
    r"^(?:on|after|end_of)_(?:(?:train|training|val|validation|test|eval)_)?(?:epoch|batch|step|iteration|update)"
    r"(?:_end|_start|_begin|_completed|_finished)?$|"
    r"^(?:on|after|end_of)_(?:val|validation|validate|eval|evaluation|evaluate)(?:_end|_completed|_finished)?$"
)
# The same, and what is run before each of them.
REPEATED_METHOD = re.compile(
    r"^(?:on|before|after|begin|begin_of|end_of)_(?:(?:train|training)_)?(?:epoch|batch|step|iteration)"
    r"(?:_end|_start|_begin|_completed|_finished|_started)?$"
)
# Run once, when all training is over.
FINAL_METHOD = re.compile(
    r"^(?:on|after|end_of)_(?:fit|train|training|run)(?:_end|_completed|_finished)?$|^(?:teardown|__exit__|__del__)$"
)
# Run by the framework without gradients.
NO_GRAD_METHOD = re.compile(
    r"^(?:(?:validation|test|predict)_(?:step|step_end|epoch_end)|prediction_step|evaluation_loop|prediction_loop|"
    r"on_(?:validation|test|predict)_(?:epoch_|batch_)?(?:start|end)|optimizer_step)$"
)
LIGHTNING_BASES = frozenset("LightningModule Callback".split())

# What takes a tensor apart into views.
SPLITTING = frozenset("unbind split chunk tensor_split unsafe_split unsafe_chunk".split())
# What takes a module out of another one by its name.
LOOKUPS = frozenset("get_submodule getattr named_modules named_children modules children".split())
HOOK_METHODS = frozenset(
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_backward_hook "
    "register_full_backward_pre_hook register_hook register_post_accumulate_grad_hook register_module_forward_hook "
    "register_module_forward_pre_hook register_module_full_backward_hook register_step_pre_hook "
    "register_step_post_hook".split()
)

# Names of what counts steps.
COUNTER_NAME = re.compile(r"(?:^|[._])\w*(?:step|iter|epoch|count|time|batch)\w*$", re.I)
# Keys that are different each time.
GROWING_KEY = re.compile(r"(?:^|[._])(?:\w*(?:step|iter|epoch|idx|index|uid|id|count|time|batch)\w*|i|j|n|t|it)$", re.I)

# --- what some rule asks about ----------------------------------------------------------------------------------

PYPLOT = "matplotlib.pyplot."
# Modules that have all that another one has.
OTHER_NAMES = {"matplotlib.pylab": "matplotlib.pyplot", "pylab": "matplotlib.pyplot"}
CLIPS = tuple("clip_grad_norm_ clip_grad_norm clip_grad_value_".split())
NOTED_FUNCTIONS = frozenset(
    "itertools.cycle itertools.tee torch.autograd.set_detect_anomaly torch.autograd.detect_anomaly "
    "torch.autograd.anomaly_mode.set_detect_anomaly torch.autograd.anomaly_mode.detect_anomaly "
    "torch.cuda.empty_cache torch.profiler.profile torch.autograd.profiler.profile torch.utils.data.DataLoader "
    "gc.disable gc.enable gc.collect gc.freeze torch.autograd.graph.saved_tensors_hooks".split()
)
NOTED_FUNCTIONS |= frozenset(PYPLOT + name for name in "figure subplots subplot_mosaic close clf cla show".split())
NOTED_FUNCTIONS |= frozenset(f"torch.nn.utils.{file}{name}" for name in CLIPS for file in ("", "clip_grad."))
NOTED_METHODS = frozenset((
    *"add_param_group retain_grad numpy requires_grad_ add_figure clf clear show unscale_".split(), *CLIPS
))  # fmt: skip
CACHES = frozenset("functools.lru_cache functools.cache".split())
# Contexts in which an error is expected.
EXPECTS_ERROR = re.compile(r"(?:^|\.)(?:raises|assertRaises\w*|assert_raises\w*|suppress|warns)$")
# A tensor in an annotation that is written as a string.
TENSOR_IN_TEXT = re.compile(r"(?:^|\||\[)\s*(?:torch\.)?Tensor\b")
PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile")
# Packages that look at what they are given, and neither keep nor close it.
LOOKING_PACKAGES = frozenset("wandb numpy matplotlib PIL".split())
